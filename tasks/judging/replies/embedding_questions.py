"""Texts to embed: one request for several, one judgment with the vector of each."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.replies.question import Outcome, Request
from gradebook.tasks.judging.settings.embedder import EmbedderSettings

MOST_REQUEST_BYTES = 200_000  # of the texts of a request with more than one
MOST_DIMENSIONS = 16_384
MOST_SHOWN = 120  # characters of a reply without vectors
PROMPT_DIGEST = "embedding"  # in the ledger, in place of a prompt file's
NO_REPLY = {"reply": ""}  # the vectors are stored once, as rationales
VALUE_BYTES = 2  # of a vector's value


def embedding_keys(embedder_digest: str, texts: Iterable[str]) -> list[str]:
    """Keys under which the vectors of texts are paid for once, 32 hex digits each."""
    start = f"embedding|{embedder_digest}|"
    return [digest_of(start + digest_of(text)) for text in texts]


@dataclass(frozen=True, slots=True)
class WantedText:
    """Text to embed, with the output and criterion that first want it."""

    request_key: str
    text: str
    output_id: str
    criterion_id: str


@dataclass(frozen=True, slots=True)
class EmbeddingQuestion:
    """Texts of one request."""

    texts: tuple[WantedText, ...]
    dimensions: int | None = None

    @property
    def output_id(self) -> str:
        """Output that the first text belongs to."""
        return self.texts[0].output_id

    @property
    def criterion_id(self) -> str:
        """Criterion that the first text is compared for."""
        return self.texts[0].criterion_id

    @property
    def part_keys(self) -> tuple[str, ...]:
        """Request keys of all texts, in order."""
        return tuple(text.request_key for text in self.texts)

    @property
    def request_key(self) -> str:
        """Key of the text, or of several texts together."""
        if len(self.texts) == 1:
            return self.texts[0].request_key
        return digest_of("".join(self.part_keys))

    @property
    def replicate(self) -> int:
        """Always 0: a text has one vector."""
        return 0

    @property
    def prefix(self) -> str:
        """The request key, as requests share no prefix."""
        return self.request_key

    @property
    def prompt_digest(self) -> str:
        """Fixed text in place of a prompt file's digest."""
        return PROMPT_DIGEST

    def request(self) -> Request:
        """Texts, and one reading of each."""
        count = len(self.texts)

        def read_parts(text: str | None, _finish_reason: str | None, _refusal: str | None) -> list[ReadReply]:
            return read_vectors(text, count)

        return Request(
            embedded_messages(text.text for text in self.texts),
            None,
            lambda text, finish_reason, refusal, _choices: read_parts(text, finish_reason, refusal)[0],
            parts=tuple(EmbeddingQuestion((text,), self.dimensions) for text in self.texts),
            read_parts=read_parts,
            note=lambda _reply: NO_REPLY,
            extra_body={} if self.dimensions is None else {"dimensions": self.dimensions},
            is_embedding=True,
        )

    def answer(self, outcome: Outcome) -> "EmbeddingAnswer":
        """Outcome of each text by its request key."""
        parts = outcome.parts or (outcome,) * len(self.texts)
        return EmbeddingAnswer(dict(zip(self.part_keys, parts, strict=True)), outcome.request_count)


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """Outcomes by request key: the vector as the rationale, or the reason why there is none."""

    outcomes: dict[str, Outcome]
    request_count: int


def embedded_messages(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Texts to embed in the form of messages, by which requests are priced."""
    return [{"role": "user", "content": text} for text in texts]


def batches_of(texts: Iterable[WantedText], settings: EmbedderSettings) -> Iterator[EmbeddingQuestion]:
    """Requests for texts, each with at most `batch_size` of them and 200,000 bytes."""
    batch: list[WantedText] = []
    byte_count = 0
    for text in texts:
        size = len(text.text.encode("utf-8", "surrogatepass"))
        if batch and (len(batch) >= settings.batch_size or byte_count + size > MOST_REQUEST_BYTES):
            yield EmbeddingQuestion(tuple(batch), settings.dimensions)
            batch, byte_count = [], 0
        batch.append(text)
        byte_count += size
    if batch:
        yield EmbeddingQuestion(tuple(batch), settings.dimensions)


def read_vectors(text: str | None, count: int) -> list[ReadReply]:
    """Read the body of a reply: a unit vector for each text as its rationale.

    All are unreadable if one is; the rationale then says what was found. Vectors are lists of numbers, or 32-bit floats
    in base64, which some endpoints send in any case; they may come in any order.
    """
    try:
        entries = orjson.loads(text or "")["data"]
        vectors = [_values(entry["embedding"]) for entry in entries]
        indexes = [entry["index"] for entry in entries]
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError, OverflowError):
        received = f"found {text[:MOST_SHOWN]!r}" if text else "found an empty text"
        return _unreadable(f"{received}, expected JSON with `data`, a list of `index` and `embedding`", count)
    if len(entries) != count or sorted(indexes) != list(range(count)):
        return _unreadable(
            f"found {counted(len(entries), 'vector')}, expected {count} with the indexes 0 to {count - 1}", count
        )
    if any(vector.ndim != 1 for vector in vectors):
        return _unreadable("found an `embedding` that is no list of numbers", count)
    sizes = sorted({vector.size for vector in vectors})
    if len(sizes) > 1 or not 0 < sizes[0] <= MOST_DIMENSIONS:
        lengths_found = " and ".join(f"{size:,}" for size in sizes)
        return _unreadable(
            f"found vectors of {lengths_found} numbers, expected one length up to {MOST_DIMENSIONS:,}", count
        )
    matrix = np.array(vectors)[np.argsort(indexes)]
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        return _unreadable("found a vector of zeros, or of numbers that are too large", count)
    return [ReadReply("scored", rationale=stored_vector(vector)) for vector in matrix / lengths]


def _values(embedding: object) -> NDArray[np.float64]:
    if isinstance(embedding, str):
        return np.frombuffer(binascii.a2b_base64(embedding, strict_mode=True), "<f4").astype(np.float64)
    return np.array(embedding, np.float64)


def _unreadable(fault: str, count: int) -> list[ReadReply]:
    return [ReadReply("parse_error", rationale=fault, fault="not_json")] * count


def stored_vector(vector: NDArray[np.float64]) -> str:
    """Vector as text: 16-bit floats, little-endian, in base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def vector_bytes(stored: str) -> bytes:
    """Vector of a stored text: 16-bit floats, little-endian."""
    return binascii.a2b_base64(stored)

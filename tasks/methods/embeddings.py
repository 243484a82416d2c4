"""Vectors of the texts that a run compares: stored ones from the ledger, the others from the embedder.

An embedder is an endpoint, or a folder in model2vec's form: a tokenizer and a vector per token, which are averaged.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.check import is_panic
from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.statistics.similarity import LexicalVectors
from gradebook.tasks.judging.prices import embedding_price
from gradebook.tasks.judging.replies.embedding_questions import (
    VALUE_BYTES,
    EmbeddingAnswer,
    EmbeddingQuestion,
    WantedText,
    batches_of,
    embedding_keys,
    vector_bytes,
)
from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.embedder import MOST_MODEL_BYTES, EmbedderSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.similarity import (
    KEY,
    ComparedTexts,
    Keys,
    key_column,
    read_planned_keys,
    similarity_criteria,
    wanted_texts,
)
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import timed

VECTORS_AT_ONCE = 10_000  # vectors read from the ledger at once


class VectorFile:
    """Vectors in the order of arrival, on disk while the block runs; keys and reasons of failures in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: of the unnamed temporary file; None: the system's temporary folder."""
        self._folder, self._open = folder, ExitStack()
        self._files: dict[int, IO[bytes]] = {}  # bytes per vector -> file
        self._keys: dict[int, list[Keys]] = {}
        self.faults: dict[str, str] = {}  # request key -> reason

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files. The vectors of a space stay readable as long as the space exists."""
        self._open.close()

    @property
    def keys(self) -> Keys:
        """Sorted keys of all vectors, (key,), without duplicates."""
        return np.unique(
            np.concatenate([np.zeros(0, KEY), *(chunk for chunks in self._keys.values() for chunk in chunks)])
        )

    def add_held(self, lake: Lake, keys: Keys) -> None:
        """Add the vectors that the ledger has. keys: (key,), of wanted vectors, without duplicates."""
        with connect_up_to_date(lake) as connection:
            connection.execute("create or replace temp view held_judgments as select * from judgments")
            connection.register("wanted_keys", pa.table({"request_key": key_column(keys)}))
            for batch in connection.execute(query("methods/held_vectors")).to_arrow_reader(VECTORS_AT_ONCE):
                batch_keys, vectors = np.array(batch.column("request_key").to_pylist(), KEY), batch.column("vector")
                sizes = np.diff(np.frombuffer(vectors.buffers()[1], np.int32)[vectors.offset :][: len(batch_keys) + 1])
                for size in np.unique(sizes).tolist():
                    is_of_size = sizes == size
                    of_size = vectors if is_of_size.all() else vectors.filter(pa.array(is_of_size))
                    self._add(batch_keys[is_of_size], of_size.buffers()[2], size)

    def add_outcomes(self, outcomes: Mapping[str, Outcome]) -> None:
        """Add the vectors of new replies, or the reasons why there are none. outcomes: by request key."""
        for key, outcome in outcomes.items():
            if outcome.rationale is None or outcome.status != "scored":
                details = (outcome.reason or "no reply", outcome.rationale)
                self.faults[key] = ": ".join(text for text in details if text)
                continue
            self.faults.pop(key, None)
            vector = vector_bytes(outcome.rationale)
            self._add(np.array([key], KEY), vector, len(vector))

    def _add(self, keys: Keys, vectors: Any, size: int) -> None:
        if size not in self._files:
            self._files[size] = self._open.enter_context(TemporaryFile(dir=self._folder))  # noqa: SIM115 - closed at the end
            self._keys[size] = []
        self._files[size].write(memoryview(vectors)[: len(keys) * size])
        self._keys[size].append(keys)

    def space(self, embedder_digest: str) -> "StoredVectors":
        """Space of the vectors that have the most frequent length; the others are left out."""
        counts = {size: sum(map(len, key_arrays)) for size, key_arrays in self._keys.items()}
        if not counts:
            return StoredVectors(embedder_digest, np.zeros(0, KEY), np.zeros((0, 1), np.int16), self.faults)
        size = max(counts, key=counts.__getitem__)
        file, shape = self._files[size], (counts[size], size // VALUE_BYTES)
        file.flush()
        vectors = np.memmap(file, np.dtype("<i2"), "r", shape=shape)
        return StoredVectors(embedder_digest, np.concatenate(self._keys[size]), np.asarray(vectors), self.faults)


class StoredVectors:
    """Vectors of texts as 16-bit floats, found by the texts' request keys."""

    def __init__(
        self,
        embedder_digest: str,
        keys: Keys,
        vectors: NDArray[np.int16],
        faults: Mapping[str, str],
    ) -> None:
        """keys: (vector,); of equal keys the first counts. vectors: (vector, dim), bits of 16-bit floats."""
        self._digest, self._vectors, self._faults = embedder_digest, vectors, faults
        self._keys, self._indices = np.unique(keys, return_index=True)

    def vectors(self, texts: Sequence[str] | Keys) -> NDArray[np.float32]:
        """Vectors, (text, dim), see `Space`. texts: the texts or their request keys."""
        keys = texts if isinstance(texts, np.ndarray) else np.array(embedding_keys(self._digest, texts), KEY)
        if not len(self._keys):
            return np.zeros((len(texts), self._vectors.shape[1]), np.float32)
        indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        vectors = read_halves(self._vectors[self._indices[indices]])
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))  # not exactly 1 after rounding to 16 bits
        is_there = (self._keys[indices] == keys) & (lengths > 0)
        vectors *= np.divide(1, lengths, out=np.zeros_like(lengths), where=is_there)[:, np.newaxis]
        return vectors

    def fault(self, text: str | bytes) -> str | None:
        """Reason why a text has no vector, or None.

        text: the text or its request key; an empty key for a blank text.
        """
        if not text.strip():
            return None
        key = text.decode() if isinstance(text, bytes) else embedding_keys(self._digest, [text])[0]
        index = np.searchsorted(self._keys, np.array([key], KEY))
        if (self._keys[index[index < len(self._keys)]] == key.encode()).any():
            return None
        usual_reason = f"found a vector of another length than {self._vectors.shape[1]}"
        return f"no_embedding: {self._faults.get(key, usual_reason)}"


def read_halves(halves: NDArray[np.int16]) -> NDArray[np.float32]:
    """Convert the bits of finite 16-bit floats to 32-bit floats; a third faster than numpy's conversion.

    Sign, exponent and mantissa move to their places in 32 bits; the product adds the difference of the exponents.
    """
    bits = halves.astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)  # clear the copies of the sign
    floats = bits.view(np.float32)
    floats *= np.float32(2.0**112)
    return floats


class Space(Protocol):
    """Vectors of texts; the inner product of two vectors is their similarity."""

    def vectors(self, texts: Any) -> Any:
        """Vectors, (text, dim), of unit length, dense or sparse; zero for a blank text and for a text without a vector.

        texts: a list; for `StoredVectors` also an array of request keys, as they are planned.
        """

    def fault(self, text: Any) -> str | None:
        """Reason why a text has no vector; None if it has one."""


# Makes the space of a criterion from the texts of other cases.
MakeSpace = Callable[[Sequence[str]], Space]


def lexical_space(texts: Sequence[str]) -> Space:
    """Space of the wording, weighted by the frequencies of n-grams in `texts`."""
    return LexicalVectors(texts)


def embed_texts(run: Run, plan: RunPlan, compared: ComparedTexts, shards: Sequence[str]) -> MakeSpace:
    """Vector space of a run's similarities.

    Asks the embedder for vectors that the ledger lacks, within the run's budget. Replies are settled into the ledger
    afterwards, also after a failure. Raises `EndpointUnavailable` and `BudgetReached`.
    """
    embedder, criteria = run.embedder, similarity_criteria(run.rubric)
    if embedder is None or not criteria:
        return lexical_space
    if embedder.folder is not None:
        model = read_static_model(embedder.folder)
        return lambda _texts: model
    with timed(run.folder, "embed", criteria[0].id) as timing, VectorFile(run.folder.path) as vectors:
        keys = np.zeros(0, KEY)
        for criterion, index in product(criteria, range(len(shards))):
            keys = np.union1d(keys, read_planned_keys(run.folder.plan_file(criterion.id, index)).wanted)
        vectors.add_held(run.lake, keys)
        missing_keys = {key.decode() for key in np.setdiff1d(keys, vectors.keys, assume_unique=True).tolist()}
        timing.row_count, timing.replayed_count = len(keys), len(keys) - len(missing_keys)
        texts = [
            text
            for criterion in criteria
            for text in wanted_texts(criterion, compared, shards, embedder.digest, missing_keys)
        ]
        if texts:
            _ask(run, plan, embedder, texts, vectors)
        space = vectors.space(embedder.digest)
    return lambda _texts: space


def _ask(run: Run, plan: RunPlan, embedder: EmbedderSettings, texts: Sequence[WantedText], vectors: VectorFile) -> None:
    """Ask for a run's texts, within its budget."""
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        run.folder.add_notes([ask_vectors(run.lake, embedder, texts, vectors, run.run_id, money, run.request.deadline)])
    finally:
        settle_run(run.lake, run.folder)


def ask_vectors(
    lake: Lake,
    embedder: EmbedderSettings,
    texts: Sequence[WantedText],
    vectors: VectorFile,
    run_id: str,
    money: Money,
    deadline: datetime | None = None,
) -> str | None:
    """Add the vectors of texts, or the reasons why there are none; returns a note of the session.

    Replies are journaled under run_id; the caller settles them. A text whose request fails is asked again alone, as
    another text of the request may be at fault.
    """
    settings = embedder.asking
    probe(settings, read_keys(settings, os.environ))

    def keep(answer: EmbeddingAnswer) -> None:
        vectors.add_outcomes(answer.outcomes)
        reporter().advance("embed", len(answer.outcomes))

    reporter().begin("embed", len(texts))
    with open_session(
        settings,
        journal_folder=lake.journal_folder,
        run_id=run_id,
        money=money,
        price=embedding_price(settings),
        deadline=deadline,
    ) as session:
        session.open_leases(partial(held_judgments, lake)).acquire(text.request_key for text in texts)
        session.ask(batches_of(texts, embedder), keep)
        session.ask(_alone([text for text in texts if text.request_key in vectors.faults], embedder), keep)
        note = session.note
    reporter().end("embed")
    return note


def _alone(texts: Iterable[WantedText], embedder: EmbedderSettings) -> Iterable[EmbeddingQuestion]:
    return (EmbeddingQuestion((text,), embedder.dimensions) for text in texts) if embedder.batch_size > 1 else ()


MOST_HEADER_BYTES = 10_000_000
TEXTS_AT_ONCE = 256  # texts tokenised at once
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


class StaticVectors:
    """Vectors of texts by a static model: the mean of their tokens' vectors, of unit length."""

    def __init__(
        self,
        tokenizer: Any,
        tokens: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        rows: NDArray[np.int64] | None,
        unknown: int | None,
    ) -> None:
        """tokens: (row, dim), vectors. weights: (token,).

        rows: (token,), row of each token; None: equal to the token's id.
        """
        self._tokenizer, self._tokens, self._weights, self._rows, self._unknown = (
            tokenizer,
            tokens,
            weights,
            rows,
            unknown,
        )

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors, (text, dim); zero for a text without a known token."""
        vectors = np.zeros((len(texts), self._tokens.shape[1]), np.float32)
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            batch = [text.encode("utf-8", "replace").decode() for text in texts[first : first + TEXTS_AT_ONCE]]
            encoded = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for row, encoding in enumerate(encoded, first):
                vectors[row] = self._mean(np.array(encoding.ids, np.int64))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def fault(self, text: str) -> str | None:
        """Always None: every text has a vector."""
        return None

    def _mean(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = ids[ids != self._unknown] if self._unknown is not None else ids
        if not len(ids):
            return np.zeros(self._tokens.shape[1], np.float32)
        vectors = self._tokens[ids if self._rows is None else self._rows[ids]]
        if self._weights is not None:
            vectors = vectors * self._weights[ids][:, np.newaxis]
        mean: NDArray[np.float32] = vectors.mean(axis=0)
        return mean


def read_static_model(folder: Path) -> StaticVectors:
    """Read the model of a folder with `tokenizer.json` and `model.safetensors`; downloads nothing, runs no code of it.

    Raises `JudgeSettingsError` if the package tokenizers is missing, or a file has another form.
    """
    if find_spec("tokenizers") is None:
        expected = "it: pip install '.[tokens]' in gradebook's clone"
        raise JudgeSettingsError("--embedder", "no package tokenizers", expected)
    tokenizer, unknown_id = _read_tokenizer(folder / "tokenizer.json")
    tensors = _read_tensors(folder / "model.safetensors")
    tokens, weights, rows = (tensors.get(name) for name in ("embeddings", "weights", "mapping"))
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    is_right = tokens is not None and tokens.ndim == 2 and bool(np.isfinite(tokens).all())
    is_right = is_right and all(
        tensor is None or (tensor.ndim == 1 and len(tensor) >= size) for tensor in (weights, rows)
    )
    if tokens is not None and is_right:
        row_count = len(tokens)
        is_right = row_count >= size if rows is None else bool((rows >= 0).all() and (rows < row_count).all())
    if tokens is None or not is_right:
        fault = "no tensor `embeddings` that fits the tokenizer"
        raise JudgeSettingsError(f"--embedder: {folder / 'model.safetensors'}", fault, "a model of model2vec")
    return StaticVectors(
        tokenizer,
        tokens.astype(np.float32),
        None if weights is None else weights.astype(np.float32),
        None if rows is None else rows.astype(np.int64),
        unknown_id,
    )


def _read_tokenizer(path: Path) -> tuple[Any, int | None]:
    """Tokenizer and the id of its unknown token."""
    from tokenizers import Tokenizer

    content = path.read_bytes()
    try:
        tokenizer = Tokenizer.from_buffer(content)
        name = json.loads(content)["model"].get("unk_token")
    except BaseException as error:  # the package raises no narrower type, and panics
        if isinstance(error, Exception) or is_panic(error):
            raise JudgeSettingsError(f"--embedder: {path}", "something else", "a tokenizer.json") from None
        raise
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, tokenizer.token_to_id(name) if isinstance(name, str) else None


def _read_tensors(path: Path) -> dict[str, Any]:
    """Tensors of a file in the format safetensors: the size of a JSON header, the header, the numbers."""
    content = path.read_bytes()
    try:
        size = int.from_bytes(content[:8], "little")
        if not 0 < size <= min(MOST_HEADER_BYTES, len(content) - 8) or len(content) > MOST_MODEL_BYTES:
            raise ValueError("found another size of the header")
        header, numbers = json.loads(content[8 : 8 + size]), memoryview(content)[8 + size :]
        return {
            name: np.frombuffer(numbers[slice(*tensor["data_offsets"])], _TYPES[tensor["dtype"]]).reshape(
                tensor["shape"]
            )
            for name, tensor in header.items()
            if name != "__metadata__"
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise JudgeSettingsError(f"--embedder: {path}", "something else", "a file in the format safetensors") from None

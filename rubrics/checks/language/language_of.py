"""Language detection with the model of py3langid, which is deterministic and shipped inside that package.

The model weighs short runs of bytes, so texts of one or two words are often misclassified. Callers that expect a
language pass it as `wanted` and get no answer if another one is only slightly likelier. For a long text the model sees
samples from start to end, so that time does not grow with length.
"""

import copy
import re
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

LONGEST_RUN = 6  # bytes
NO_BYTE = b"\xff"  # does not occur in UTF-8, so no run crosses it

Scores = NDArray[np.float32]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Automaton with the weights of its runs for each language.

    codes: [column], ISO 639-1; a language may have two columns, for two scripts. pairs: flat (first byte, second byte),
    start of the row of the state reached. moves: flat (row, byte), next state. rows: (state,), start of its row. runs:
    (state,), number of its run, -1 for none. weights: (run, column). priors: (column,).
    """

    codes: tuple[str, ...]
    pairs: Places
    moves: NDArray[np.uint32]
    rows: Places
    runs: Places
    weights: Scores
    priors: Scores

    def score_texts(self, texts: Sequence[str]) -> list[Scores | None]:
        """Log likelihood of each language for each text: (column,), None without any known run."""
        encoded = [_encode(text) for text in texts]
        runs = self._find_runs((NO_BYTE * (LONGEST_RUN - 1)) + NO_BYTE.join(encoded))
        scores, start = [], 0
        for text in encoded:
            scores.append(self._score(runs[start : start + len(text)]))
            start += len(text) + len(NO_BYTE)
        return scores

    def _find_runs(self, content: bytes) -> Places:
        """Run that ends at each byte, -1 for none: (byte,). Starts at the last byte of the first `LONGEST_RUN`
        bytes.
        """
        places = np.frombuffer(content, np.uint8).astype(np.intp)
        starts = self.pairs.take(places[:-1] * 256 + places[1:])
        for step in range(2, LONGEST_RUN - 1):
            starts = self.rows.take(self.moves.take(starts[:-1] + places[step:]))
        return self.runs.take(self.moves.take(starts[:-1] + places[LONGEST_RUN - 1 :]))

    def _score(self, runs: Places) -> Scores | None:
        """Sum the weights of the runs in one text. runs: (byte,), -1 for none."""
        found = runs[runs >= 0]
        if not len(found):
            return None
        found.sort()
        is_first = np.ones(len(found) + 1, np.bool_)
        np.not_equal(found[1:], found[:-1], out=is_first[1:-1])
        edges = is_first.nonzero()[0]
        counts = (edges[1:] - edges[:-1]).astype(np.float32)
        scores: Scores = np.log1p(counts) @ self.weights.take(found[edges[:-1]], axis=0) + self.priors
        return scores


def read_model(identifier: "LanguageIdentifier") -> LanguageModel:
    """Read the model of an identifier, restricted to the identifier's languages."""
    moves = np.asarray(identifier.tk_nextmove, np.uint32)
    rows = np.asarray(identifier.tk_row).astype(np.intp) * 256
    first = rows[moves[:256]]
    pairs = rows[moves[(first[:, None] + np.arange(256)).ravel()]]
    runs = np.array(identifier.tk_output, np.intp)
    weights = np.ascontiguousarray(identifier.nb_ptc, np.float32)  # half floats are slow to sum
    return LanguageModel(tuple(identifier.nb_classes), pairs, moves, rows, runs, weights, identifier.nb_pc)


def _encode(text: str) -> bytes:
    """Encode as py3langid does: all-capital text is lowered first."""
    lowered = text.lower() if text.isupper() else text
    return unicodedata.normalize("NFC", lowered).encode("utf-8", "surrogatepass")


TOO_LITTLE_TEXT = "the language can't be told: too little to go by"
LETTER = re.compile(r"[^\W\d_]")
SAMPLE_CHARACTERS = 30
FEW_SAMPLES, MANY_SAMPLES = 4, 40
FEW_SAMPLED = FEW_SAMPLES * SAMPLE_CHARACTERS
BATCH_SIZE = 64  # texts at a time, so that the working set fits a core's cache
# Minimum lead of another language over a wanted one, as a natural logarithm. Misclassified English texts of two to four
# words mostly lie below it, texts of three words in other languages hardly ever.
LEAST_LEAD = 6.0
_SAME_LANGUAGE = {"nn": "no"}  # Norwegian, as one language
_LOADING = threading.Lock()


def find_languages(texts: pa.Array, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> pa.StringArray:
    """Detect the language of each text as an ISO 639-1 code; null if it has no letters or too few.

    texts: (text,), string or large_string. among: candidate codes; empty for all that the model knows. wanted: if
    another language is only slightly likelier than one of these, the result is null. Returns (text,). Raises
    `ValueError` if the model does not know a code of `among`.
    """
    found: list[str | None] = []
    for start in range(0, len(texts), BATCH_SIZE):
        batch = [text or "" for text in texts.slice(start, BATCH_SIZE).to_pylist()]
        found.extend(_find_batch(batch, among, wanted))
    return pa.array(found, pa.string())


def find_language(text: str, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> str | None:
    """Detect the language of one text as `find_languages` does."""
    return _find_batch((text,), among, wanted)[0]


def _find_batch(texts: Sequence[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    found = _classify([_sample(text, FEW_SAMPLES) for text in texts], among, wanted)
    # A few samples may all be from a table, a name or a quote.
    doubtful = [row for row, text in enumerate(texts) if found[row] not in wanted and len(text) > FEW_SAMPLED]
    if doubtful:
        again = _classify([_sample(texts[row], MANY_SAMPLES) for row in doubtful], among, wanted)
        for row, code in zip(doubtful, again, strict=True):
            found[row] = code
    return found


def _classify(samples: list[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    model = _model(among)
    # Texts without a letter get no answer: the model has seen emoji more often in some languages than in others.
    scores = model.score_texts([sample if LETTER.search(sample) else "" for sample in samples])
    return [None if row is None else _choose(model, row, wanted) for row in scores]


def _choose(model: LanguageModel, scores: Scores, wanted: tuple[str, ...]) -> str | None:
    """Likeliest language, None if one of the wanted is only slightly less likely. scores: (column,)."""
    best = int(scores.argmax())
    found = _SAME_LANGUAGE.get(model.codes[best], model.codes[best])
    if wanted and found not in wanted:
        leads = (scores[best] - scores).tolist()
        if any(code in wanted and lead < LEAST_LEAD for code, lead in zip(model.codes, leads, strict=True)):
            return None
    return found


def _sample(text: str, count: int) -> str:
    if len(text) <= count * SAMPLE_CHARACTERS:
        return text
    step = (len(text) - SAMPLE_CHARACTERS) / (count - 1)
    starts = [int(number * step) for number in range(count)]
    return " ".join([text[start : start + SAMPLE_CHARACTERS] for start in starts])


def _model(among: tuple[str, ...]) -> LanguageModel:
    with _LOADING:  # two threads must never load the model at once
        return _restrict(among)


@lru_cache(maxsize=4)
def _restrict(among: tuple[str, ...]) -> LanguageModel:
    identifier = copy.copy(_load())
    identifier.set_languages(among or [code for code in identifier.labels if len(code) == 2])
    return read_model(identifier)


@lru_cache(maxsize=1)
def _load() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # slow to import

    return LanguageIdentifier.from_model_file(MODEL_FILE)

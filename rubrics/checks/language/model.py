"""Model of py3langid as arrays, so that no Python loop runs over the bytes of a text.

The model is an automaton (Aho and Corasick 1975, Communications of the ACM 18:6): each byte moves it to another state,
and most states stand for a run of bytes that the model knows. A state depends only on the last `LONGEST_RUN` bytes, so
all places of all texts are advanced side by side. The weights of the runs are summed as in py3langid.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
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

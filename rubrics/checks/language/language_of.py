"""The language of a text, by the model of py3langid: deterministic, and shipped inside that package.

The model weighs short runs of bytes, so a text of one or two words is easily taken for another language. Who holds a
text to be in a language names it as `wanted`, then, and gets no answer where another one is hardly likelier. Of a long
text the model sees samples from the first character to the last, so that time does not grow with length.
"""

import copy
import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

NOTHING_KNOWN = float(np.finfo(np.float32).min)  # the score of a text without any run of bytes that the model knows
UNTOLD = "the language can't be told: too little to go by"
LETTER = re.compile(r"[^\W\d_]")
SAMPLE_CHARACTERS = 30
FEW_SAMPLES, MANY_SAMPLES = 4, 40
# How much likelier another language than a wanted one has to be, as a natural logarithm. English of two to four words
# that is missed is mostly within it, other languages of three words hardly ever are.
LEAST_LEAD = 6.0
_SAME_LANGUAGE = {"nn": "no"}  # Norwegian, as one language
_LOADING = threading.Lock()


def find_languages(texts: pa.Array, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> pa.StringArray:
    """The language of each text as an ISO 639-1 code; null where it has no letter to tell it from, or too few.

    texts: (text,), string or large_string. among: codes of which one is chosen, without any all that the model knows.
    wanted: where another language is hardly likelier than one of them, nothing is told. Returns (text,). Raises
    `ValueError` where the model does not know a code of `among`.
    """
    return pa.array([find_language(text, among, wanted) if text else None for text in texts.to_pylist()], pa.string())


def find_language(text: str, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> str | None:
    """As `find_languages`, for one text."""
    found = _classify(_sample(text, FEW_SAMPLES), among, wanted)
    if found in wanted or len(text) <= FEW_SAMPLES * SAMPLE_CHARACTERS:
        return found
    return _classify(_sample(text, MANY_SAMPLES), among, wanted)  # a few samples may hold a table, a name or a quote


def _classify(sample: str, among: tuple[str, ...], wanted: tuple[str, ...]) -> str | None:
    if not LETTER.search(sample):
        return None  # the model has seen emoji more often in one language than in another
    identifier = _identifier(among)
    code, score = identifier.classify(sample)
    found: str = _SAME_LANGUAGE.get(code, code)
    if score <= NOTHING_KNOWN:
        return None
    if wanted and found not in wanted:
        scores = dict(identifier.rank(sample))
        if any(score - scores.get(other, NOTHING_KNOWN) < LEAST_LEAD for other in wanted):
            return None
    return found


def known_languages() -> tuple[str, ...]:
    """The codes that `find_languages` can answer without `among`, sorted."""
    return tuple(sorted({_SAME_LANGUAGE.get(code, code) for code in _identifier(()).labels}))


def _sample(text: str, count: int) -> str:
    if len(text) <= count * SAMPLE_CHARACTERS:
        return text
    step = (len(text) - SAMPLE_CHARACTERS) / (count - 1)
    starts = (int(number * step) for number in range(count))
    return " ".join(text[start : start + SAMPLE_CHARACTERS] for start in starts)


def _identifier(among: tuple[str, ...]) -> "LanguageIdentifier":
    with _LOADING:  # so that two threads never load the model at once
        return _restrict(among)


@lru_cache(maxsize=4)
def _restrict(among: tuple[str, ...]) -> "LanguageIdentifier":
    identifier = copy.copy(_load())
    identifier.set_languages(among or [code for code in identifier.labels if len(code) == 2])
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc, dtype=np.float32)  # half floats are slow to add up
    return identifier


@lru_cache(maxsize=1)
def _load() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # slow to import

    return LanguageIdentifier.from_model_file(MODEL_FILE)

"""The language of a text, by the model of py3langid: deterministic, and shipped inside that package.

The model weighs short runs of bytes, so a text of one or two words is easily taken for another language. Who holds a
text to be in a language names it as `wanted`, then, and gets no answer where another one is hardly likelier. Of a long
text the model sees samples from the first character to the last, so that time does not grow with length.
"""

import copy
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from gradebook.rubrics.checks.language.model import LanguageModel, Scores, read_model

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNTOLD = "the language can't be told: too little to go by"
LETTER = re.compile(r"[^\W\d_]")
SAMPLE_CHARACTERS = 30
FEW_SAMPLES, MANY_SAMPLES = 4, 40
FEW_SAMPLED = FEW_SAMPLES * SAMPLE_CHARACTERS
BATCH_SIZE = 64  # texts at once, so that what is looked at stays in a core's cache
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
    found: list[str | None] = []
    for start in range(0, len(texts), BATCH_SIZE):
        batch = [text or "" for text in texts.slice(start, BATCH_SIZE).to_pylist()]
        found.extend(_find_batch(batch, among, wanted))
    return pa.array(found, pa.string())


def find_language(text: str, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> str | None:
    """As `find_languages`, for one text."""
    return _find_batch((text,), among, wanted)[0]


def _find_batch(texts: Sequence[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    found = _classify([_sample(text, FEW_SAMPLES) for text in texts], among, wanted)
    # A few samples may hold a table, a name or a quote.
    doubtful = [row for row, text in enumerate(texts) if found[row] not in wanted and len(text) > FEW_SAMPLED]
    if doubtful:
        again = _classify([_sample(texts[row], MANY_SAMPLES) for row in doubtful], among, wanted)
        for row, code in zip(doubtful, again, strict=True):
            found[row] = code
    return found


def _classify(samples: list[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    model = _model(among)
    # Without a letter nothing is told: the model has seen emoji more often in one language than in another.
    scores = model.score_texts([sample if LETTER.search(sample) else "" for sample in samples])
    return [None if row is None else _choose(model, row, wanted) for row in scores]


def _choose(model: LanguageModel, scores: Scores, wanted: tuple[str, ...]) -> str | None:
    """The likeliest language, None where one of the wanted is hardly less likely. scores: (column,)."""
    best = int(scores.argmax())
    found = _SAME_LANGUAGE.get(model.codes[best], model.codes[best])
    if wanted and found not in wanted:
        leads = (scores[best] - scores).tolist()
        if any(code in wanted and lead < LEAST_LEAD for code, lead in zip(model.codes, leads, strict=True)):
            return None
    return found


def known_languages() -> tuple[str, ...]:
    """The codes that `find_languages` can answer without `among`, sorted."""
    return tuple(sorted({_SAME_LANGUAGE.get(code, code) for code in _model(()).codes}))


def _sample(text: str, count: int) -> str:
    if len(text) <= count * SAMPLE_CHARACTERS:
        return text
    step = (len(text) - SAMPLE_CHARACTERS) / (count - 1)
    starts = [int(number * step) for number in range(count)]
    return " ".join([text[start : start + SAMPLE_CHARACTERS] for start in starts])


def _model(among: tuple[str, ...]) -> LanguageModel:
    with _LOADING:  # so that two threads never load the model at once
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

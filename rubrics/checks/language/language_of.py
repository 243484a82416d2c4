"""Language detection with the model of py3langid, which is deterministic and shipped inside that package.

The model weighs short runs of bytes, so texts of one or two words are often misclassified. Callers that expect a
language pass it as `wanted` and get no answer if another one is only slightly likelier. For a long text the model sees
samples from start to end, so that time does not grow with length.
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

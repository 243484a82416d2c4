"""Checks of the language and the script of an output, and language detection.

Language detection with the model of py3langid, which is deterministic and shipped inside that package.
The model weighs short runs of bytes, so texts of one or two words are often misclassified. Callers that expect a
language pass it as `wanted` and get no answer if another one is only slightly likelier. For a long text the model sees
samples from start to end, so that time does not grow with length.
"""

import copy
import difflib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.checks.style.phrases import read_phrases

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MEANT = MappingProxyType(  # common wrong code -> meant code
    {"jp": "ja", "cn": "zh", "kr": "ko", "nb": "no", "nn": "no", "iw": "he", "ua": "uk", "gr": "el"}
)
PAGE = 256
NEUTRAL, WANTED, FOREIGN = 0, 1, 2
EXCERPT_CHARACTERS = 20


def _known_language(code: str) -> str:
    codes = read_phrases("languages")
    if code in codes:
        return code
    near = MEANT.get(code.lower()) or _nearest(code.lower().partition("-")[0], codes, 0.5)
    raise ValueError(f"found the language {code!r}, expected {near or 'a code of ISO 639-1'}")


def _known_script(name: str) -> str:
    names = read_phrases("scripts")
    if name in names:
        return name
    near = _nearest(name.title(), names, 0.6)
    raise ValueError(f"found the script {name!r}, expected {near or 'a script of Unicode by its name, such as Latin'}")


def _nearest(name: str, names: Iterable[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(names), 1, cutoff)), None)


class LanguageSettings(CheckSettings):
    """Allowed languages of the output."""

    any: Annotated[tuple[Annotated[str, AfterValidator(_known_language)], ...], Field(min_length=1)]
    """codes of ISO 639-1 of which one is enough: `en`, `de`, `zh`"""
    min_letters: Annotated[int, Field(ge=1, strict=True)] = 10
    """minimum number of letters to decide"""


class ScriptSettings(CheckSettings):
    """Allowed scripts of the letters."""

    any: Annotated[tuple[Annotated[str, AfterValidator(_known_script)], ...], Field(min_length=1)]
    """Unicode names of the allowed scripts: `Latin`, `Han`, `Hiragana`"""
    min_rate: Annotated[float, Field(ge=0, le=1)] = 0.9
    """minimum share, 0 to 1, of the letters in these scripts"""


@register_check(
    "language",
    LanguageSettings,
    cost="heavy",
    examples=(
        Example("The invoice was sent to you on Monday morning.", True, {"any": ["en"]}),
        Example("Die Rechnung wurde Ihnen am Montagmorgen geschickt.", False, {"any": ["en", "fr"]}),
        Example("42", None, {"any": ["en"]}),
        Example("Hello, World Cup!", None, {"any": ["en"]}),
    ),
)
def language(shard: pa.Table, settings: LanguageSettings) -> CheckVerdicts:
    """The output is in one of the languages. The evidence names the detected language.

    The language is detected by the statistical model of py3langid, which knows 97 languages. It sees samples of a long
    text from start to end, and returns the dominant language of a mixed one. An output is unscored if it has fewer than
    `min_letters` letters, or if another language is only slightly likelier than one of yours, as in a few words.
    Related languages (Norwegian and Danish, Croatian and Serbian) are easily confused in a sentence or two: allow both,
    or require more text. Code counts as text.
    """
    texts = text_column(shard, "output")
    has_letters = [_has_letters(text.as_py(), settings.min_letters) for text in texts]
    codes = iter(find_languages(texts.filter(pa.array(has_letters, pa.bool_())), wanted=settings.any).to_pylist())
    too_few = RowFinding(None, reason=f"too few letters: expected at least {settings.min_letters}")
    return gather_rows(
        _judge_language(next(codes), settings.any) if has_enough else too_few for has_enough in has_letters
    )


def _judge_language(code: str | None, wanted: tuple[str, ...]) -> RowFinding:
    if code is None:
        return RowFinding(None, reason=TOO_LITTLE_TEXT)
    if code in wanted:
        return RowFinding(True, f"found {code}")
    return RowFinding(False, f"found {code}, expected {' or '.join(wanted)}")


def _has_letters(text: str, least: int) -> bool:
    return sum(map(str.isalpha, text[: 4 * least])) >= least or sum(map(str.isalpha, text)) >= least


@register_check(
    "script",
    ScriptSettings,
    cost="rows",
    examples=(
        Example("Привет, мир!", True, {"any": ["Cyrillic"]}),
        Example("Привет, world!", False, {"any": ["Cyrillic"]}),
        Example("カタカナと漢字", True, {"any": ["Han", "Hiragana", "Katakana"]}),
        Example("1 + 1 = 2", None, {"any": ["Latin"]}),
    ),
)
def script(shard: pa.Table, settings: ScriptSettings) -> CheckVerdicts:
    """At least `min_rate` of the letters are in one of the scripts. The evidence gives the share and a foreign letter.

    Letters and their scripts are Unicode's: digits, marks, signs, emoji and the few letters shared by several scripts
    ("ー", "µ") do not count. Japanese needs Han, Hiragana and Katakana, Korean Hangul. An output without a letter is
    unscored. The check is exact and does not detect a language: "Hello" is Latin in any language.
    """
    texts = text_column(shard, "output")
    is_plain = pc.and_(pc.string_is_ascii(texts), pc.match_substring_regex(texts, "[A-Za-z]"))
    is_decided = pc.and_(is_plain, "Latin" in settings.any)
    undecided = iter(texts.filter(pc.invert(is_decided)).to_pylist())
    return gather_rows(_judge(None if decided else next(undecided), settings) for decided in is_decided.to_pylist())


def _judge(text: str | None, settings: ScriptSettings) -> RowFinding:
    """Finding for one text; None if it has letters, all in the wanted scripts."""
    if text is None:
        return RowFinding(True)
    counts = [0, 0, 0]
    for character, count in Counter(text).items():
        counts[_kind(character, settings.any)] += count
    letters = counts[WANTED] + counts[FOREIGN]
    if not letters:
        return RowFinding(None, reason="no letters")
    rate = counts[WANTED] / letters
    if rate >= settings.min_rate:
        return RowFinding(True)
    index = next(index for index, character in enumerate(text) if _kind(character, settings.any) == FOREIGN)
    share = f"{counts[WANTED]} of {letters} letters ({rate:.3f}) in {' or '.join(settings.any)}"
    excerpt = text[index : index + EXCERPT_CHARACTERS]
    return RowFinding(False, f"{share}, at least {settings.min_rate:g} required: found '{excerpt}'")


def _kind(character: str, scripts: tuple[str, ...]) -> int:
    page, offset = divmod(ord(character), PAGE)
    return _kinds(page, scripts)[offset]


@lru_cache(maxsize=4096)
def _kinds(page: int, scripts: tuple[str, ...]) -> bytes:
    """Kind of each of the 256 characters of a page: NEUTRAL, WANTED or FOREIGN."""
    characters = pa.array([_character(page * PAGE + offset) for offset in range(PAGE)])
    script_classes = "".join(rf"\p{{{name}}}" for name in scripts)
    is_letter = pc.match_substring_regex(characters, r"[^\P{L}\p{Common}\p{Inherited}]").to_pylist()
    is_wanted = pc.match_substring_regex(characters, f"[{script_classes}]").to_pylist()
    return bytes(_choose_kinds(is_letter, is_wanted))


def _choose_kinds(is_letter: list[bool], is_wanted: list[bool]) -> Iterator[int]:
    for letter, wanted in zip(is_letter, is_wanted, strict=True):
        yield (WANTED if wanted else FOREIGN) if letter else NEUTRAL


def _character(point: int) -> str:
    return "" if 0xD800 <= point < 0xE000 else chr(point)


LONGEST_RUN = 6  # bytes of a run
NO_BYTE = b"\xff"  # does not occur in UTF-8, so no run crosses it

Scores = NDArray[np.float32]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Automaton with the weights of its runs for each language.

    codes: [column], ISO 639-1; a language may have two columns, for two scripts. pairs: flat (first byte, second byte),
    start of the row of the state reached. moves: flat (row, byte), next state. rows: (state,), start of its row. runs:
    (state,), number of its run, -1 for none. weights: (run, column). priors: (column,).
    """

    codes: tuple[str, ...]
    pairs: Indices
    moves: NDArray[np.uint32]
    rows: Indices
    runs: Indices
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

    def _find_runs(self, content: bytes) -> Indices:
        """Run that ends at each byte, -1 for none: (byte,). Starts at the last byte of the first `LONGEST_RUN`
        bytes.
        """
        byte_values = np.frombuffer(content, np.uint8).astype(np.intp)
        starts = self.pairs.take(byte_values[:-1] * 256 + byte_values[1:])
        for step in range(2, LONGEST_RUN - 1):
            starts = self.rows.take(self.moves.take(starts[:-1] + byte_values[step:]))
        return self.runs.take(self.moves.take(starts[:-1] + byte_values[LONGEST_RUN - 1 :]))

    def _score(self, runs: Indices) -> Scores | None:
        """Sum the weights of the runs in one text. runs: (byte,), -1 for none."""
        known_runs = runs[runs >= 0]
        if not len(known_runs):
            return None
        known_runs.sort()
        is_first = np.ones(len(known_runs) + 1, np.bool_)
        np.not_equal(known_runs[1:], known_runs[:-1], out=is_first[1:-1])
        edges = is_first.nonzero()[0]
        counts = (edges[1:] - edges[:-1]).astype(np.float32)
        scores: Scores = np.log1p(counts) @ self.weights.take(known_runs[edges[:-1]], axis=0) + self.priors
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
    codes: list[str | None] = []
    for start in range(0, len(texts), BATCH_SIZE):
        batch = [text or "" for text in texts.slice(start, BATCH_SIZE).to_pylist()]
        codes.extend(_find_batch(batch, among, wanted))
    return pa.array(codes, pa.string())


def find_language(text: str, among: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> str | None:
    """Detect the language of one text as `find_languages` does."""
    return _find_batch((text,), among, wanted)[0]


def _find_batch(texts: Sequence[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    codes = _classify([_sample(text, FEW_SAMPLES) for text in texts], among, wanted)
    # A few samples may all be from a table, a name or a quote.
    doubtful = [row for row, text in enumerate(texts) if codes[row] not in wanted and len(text) > FEW_SAMPLED]
    if doubtful:
        second_pass = _classify([_sample(texts[row], MANY_SAMPLES) for row in doubtful], among, wanted)
        for row, code in zip(doubtful, second_pass, strict=True):
            codes[row] = code
    return codes


def _classify(samples: list[str], among: tuple[str, ...], wanted: tuple[str, ...]) -> list[str | None]:
    model = _model(among)
    # Texts without a letter get no answer: the model has seen emoji more often in some languages than in others.
    scores = model.score_texts([sample if LETTER.search(sample) else "" for sample in samples])
    return [None if row is None else _choose(model, row, wanted) for row in scores]


def _choose(model: LanguageModel, scores: Scores, wanted: tuple[str, ...]) -> str | None:
    """Likeliest language, None if one of the wanted is only slightly less likely. scores: (column,)."""
    best = int(scores.argmax())
    code = _SAME_LANGUAGE.get(model.codes[best], model.codes[best])
    if wanted and code not in wanted:
        leads = (scores[best] - scores).tolist()
        if any(code in wanted and lead < LEAST_LEAD for code, lead in zip(model.codes, leads, strict=True)):
            return None
    return code


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

"""Checks of the language and the script of an output."""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.language.language_of import TOO_LITTLE_TEXT, find_languages
from gradebook.rubrics.checks.style.phrases import read_phrases

MEANT = MappingProxyType(  # common mistakes for these codes
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
    found = iter(find_languages(texts.filter(pa.array(has_letters, pa.bool_())), wanted=settings.any).to_pylist())
    too_few = RowFinding(None, reason=f"too few letters: expected at least {settings.min_letters}")
    return gather_rows(_judge_language(next(found), settings.any) if enough else too_few for enough in has_letters)


def _judge_language(found: str | None, wanted: tuple[str, ...]) -> RowFinding:
    if found is None:
        return RowFinding(None, reason=TOO_LITTLE_TEXT)
    if found in wanted:
        return RowFinding(True, f"found {found}")
    return RowFinding(False, f"found {found}, expected {' or '.join(wanted)}")


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
    others = iter(texts.filter(pc.invert(is_decided)).to_pylist())
    return gather_rows(_judge(None if decided else next(others), settings) for decided in is_decided.to_pylist())


def _judge(text: str | None, settings: ScriptSettings) -> RowFinding:
    """Judge one text. None stands for a text whose letters, at least one, are all in the scripts."""
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
    place = next(place for place, character in enumerate(text) if _kind(character, settings.any) == FOREIGN)
    share = f"{counts[WANTED]} of {letters} letters ({rate:.3f}) in {' or '.join(settings.any)}"
    found = text[place : place + EXCERPT_CHARACTERS]
    return RowFinding(False, f"{share}, at least {settings.min_rate:g} required: found '{found}'")


def _kind(character: str, scripts: tuple[str, ...]) -> int:
    page, place = divmod(ord(character), PAGE)
    return _kinds(page, scripts)[place]


@lru_cache(maxsize=4096)
def _kinds(page: int, scripts: tuple[str, ...]) -> bytes:
    """Kind of each of the 256 characters of a page: NEUTRAL, WANTED or FOREIGN."""
    characters = pa.array([_character(page * PAGE + place) for place in range(PAGE)])
    wanted = "".join(rf"\p{{{name}}}" for name in scripts)
    is_letter = pc.match_substring_regex(characters, r"[^\P{L}\p{Common}\p{Inherited}]").to_pylist()
    is_wanted = pc.match_substring_regex(characters, f"[{wanted}]").to_pylist()
    return bytes(_choose_kinds(is_letter, is_wanted))


def _choose_kinds(is_letter: list[bool], is_wanted: list[bool]) -> Iterator[int]:
    for letter, wanted in zip(is_letter, is_wanted, strict=True):
        yield (WANTED if wanted else FOREIGN) if letter else NEUTRAL


def _character(point: int) -> str:
    return "" if 0xD800 <= point < 0xE000 else chr(point)

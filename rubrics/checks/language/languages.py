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
from gradebook.rubrics.checks.language.language_of import UNTOLD, find_languages
from gradebook.rubrics.checks.style.phrases import read_phrases

MEANT = MappingProxyType(  # codes that are taken for them
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
    """The languages of which the output may be in any."""

    any: Annotated[tuple[Annotated[str, AfterValidator(_known_language)], ...], Field(min_length=1)]
    """the languages of which one is enough, as codes of ISO 639-1: `en`, `de`, `zh`"""
    min_letters: Annotated[int, Field(ge=1, strict=True)] = 10
    """with fewer letters it can't tell"""


class ScriptSettings(CheckSettings):
    """The scripts that the letters have to be in."""

    any: Annotated[tuple[Annotated[str, AfterValidator(_known_script)], ...], Field(min_length=1)]
    """the scripts of which each letter may be in any, by their names in Unicode: `Latin`, `Han`, `Hiragana`"""
    min_rate: Annotated[float, Field(ge=0, le=1)] = 0.9
    """the least share, 0 to 1, of the letters that has to be in them"""


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
    """The output is in one of the languages. The evidence names the language that was found.

    The language is told by the statistical model of py3langid, which knows 97 of them; of a long text it sees samples
    from beginning to end, and of a mixed one it names the language that weighs most. It can't tell where there are
    fewer than `min_letters` letters, nor where another language is hardly likelier than one of yours, as in a few
    words. Related languages (Norwegian and Danish, Croatian and Serbian) are easily taken for each other in a sentence
    or two, so name both, or ask for some text. Code counts as text.
    """
    texts = text_column(shard, "output")
    has_letters = [_has_letters(text.as_py(), settings.min_letters) for text in texts]
    found = iter(find_languages(texts.filter(pa.array(has_letters, pa.bool_())), wanted=settings.any).to_pylist())
    too_few = RowFinding(None, reason=f"too few letters: expected at least {settings.min_letters}")
    return gather_rows(_judge_language(next(found), settings.any) if enough else too_few for enough in has_letters)


def _judge_language(found: str | None, wanted: tuple[str, ...]) -> RowFinding:
    if found is None:
        return RowFinding(None, reason=UNTOLD)
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
    """At least `min_rate` of the letters are in one of the scripts. The evidence gives the share, and another letter.

    Letters are Unicode's, each with the script of its own: digits, marks, signs, emoji and the few letters that several
    scripts share ("ー", "µ") count for none. Japanese needs Han, Hiragana and Katakana, Korean Hangul. It can't tell
    where there is no letter. Exact, and no guess about a language: "Hello" is Latin, whatever it says.
    """
    texts = text_column(shard, "output")
    is_plain = pc.and_(pc.string_is_ascii(texts), pc.match_substring_regex(texts, "[A-Za-z]"))
    is_told = pc.and_(is_plain, "Latin" in settings.any)
    others = iter(texts.filter(pc.invert(is_told)).to_pylist())
    return gather_rows(_judge(None if told else next(others), settings) for told in is_told.to_pylist())


def _judge(text: str | None, settings: ScriptSettings) -> RowFinding:
    """text: None where all of its letters are known to be in the scripts, and there are some."""
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
    """What each of the 256 characters of a page is: NEUTRAL, WANTED or FOREIGN."""
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

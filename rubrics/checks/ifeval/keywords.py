"""Instructions about keywords and letters. Keywords are patterns, as in IFEval, in RE2's syntax."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.bounds import Count
from gradebook.rubrics.check_kit.check import CheckSettings, Example
from gradebook.rubrics.check_kit.evidence import quote_words
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    Relation,
    judge_relation,
    register_column_instruction,
    register_instruction,
)
from gradebook.rubrics.checks.ifeval.searching import Keyword, StrippedKeyword, count_keyword, find_keywords, find_words


def _one_character(letter: str) -> str:
    if len(letter) != 1 or len(letter.lower()) != 1 or letter.isspace():
        raise ValueError(f"found {letter!r}, expected one character that is not whitespace")
    return letter


class ExistenceSettings(CheckSettings):
    """Settings of `keywords:existence`."""

    keywords: Annotated[tuple[Keyword, ...], Field(min_length=1)]
    """required keywords: patterns in RE2's syntax, in any case"""


class FrequencySettings(CheckSettings):
    """Settings of `keywords:frequency`."""

    keyword: StrippedKeyword
    """keyword to count: a pattern in RE2's syntax, in any case"""
    frequency: Count
    """bound on the number of occurrences"""
    relation: Relation
    """whether the number of occurrences has to be `less than` the bound or `at least` the bound"""


class ForbiddenWordsSettings(CheckSettings):
    """Settings of `keywords:forbidden_words`."""

    forbidden_words: Annotated[tuple[Keyword, ...], Field(min_length=1)]
    """forbidden words: patterns in RE2's syntax, in any case"""


class LetterFrequencySettings(CheckSettings):
    """Settings of `keywords:letter_frequency`."""

    letter: Annotated[str, AfterValidator(_one_character)]
    """character to count, in either case; it need not be a letter: `#` and `!` are allowed"""
    let_frequency: Count
    """bound on the number of occurrences"""
    let_relation: Relation
    """whether the number of occurrences has to be `less than` the bound or `at least` the bound"""


@register_column_instruction(
    "keywords:existence",
    ExistenceSettings,
    Example("The Dog barked all day.", True, {"keywords": ["dog", "day"]}),
    Example("The dog barked.", False, {"keywords": ["dog", "day"]}),
)
def existence(texts: list[str], settings: ExistenceSettings) -> list[RowFinding]:
    """Every keyword occurs, in any case.

    A keyword also matches inside longer words: "day" is in "yesterday". It is a pattern, as in IFEval, so "e.g." finds
    "eggs"; settings with a pattern that RE2 refuses, such as "C++", are refused (write `C\\\\+\\\\+`).
    """
    finds = find_keywords(texts, settings.keywords)
    return [_all_found(settings.keywords, row) for row in zip(*finds, strict=True)]


def _all_found(keywords: tuple[str, ...], finds: tuple[bool, ...]) -> RowFinding:
    if all(finds):
        return FOLLOWED
    missing = [keyword for keyword, is_found in zip(keywords, finds, strict=True) if not is_found]
    return RowFinding(False, f"missing {quote_words(missing)}")


@register_column_instruction(
    "keywords:frequency",
    FrequencySettings,
    Example("War and warfare.", True, {"keyword": "war", "frequency": 2, "relation": "at least"}),
    Example("War and warfare.", False, {"keyword": "war", "frequency": 2, "relation": "less than"}),
)
def frequency(texts: list[str], settings: FrequencySettings) -> list[RowFinding]:
    """The keyword occurs, in any case, less than `frequency` times, or at least that often.

    It also counts inside longer words, without overlaps: "ana" is once in "banana". It is a pattern in RE2's syntax, as
    in `keywords:existence`, without whitespace at its ends; a pattern that matches the empty text is refused.
    """
    counts = count_keyword(texts, settings.keyword)
    unit, units = f"time {settings.keyword!r}", f"times {settings.keyword!r}"
    return [judge_relation(count, settings.relation, settings.frequency, unit, units) for count in counts]


@register_column_instruction(
    "keywords:forbidden_words",
    ForbiddenWordsSettings,
    Example("She rides through a canyon.", True, {"forbidden_words": ["can", "ride"]}),
    Example("She can ride.", False, {"forbidden_words": ["can", "rode"]}),
)
def forbidden_words(texts: list[str], settings: ForbiddenWordsSettings) -> list[RowFinding]:
    """None of the words occurs, in any case, as a word of its own.

    The characters before and after it may not be a letter, a number or an underscore: "can" is in "can't", not in
    "canyon". In a script without spaces, words are not separated. The words are patterns, as in `keywords:existence`. A
    word that ends with a mark, such as "wow!", is found before a space too, where IFEval's `\\b` requires a letter.
    """
    finds = find_words(texts, settings.forbidden_words)
    return [_none_found(settings.forbidden_words, row) for row in zip(*finds, strict=True)]


def _none_found(words: tuple[str, ...], finds: tuple[bool, ...]) -> RowFinding:
    if not any(finds):
        return FOLLOWED
    found = [word for word, is_found in zip(words, finds, strict=True) if is_found]
    return RowFinding(False, f"found {quote_words(found)}")


@register_instruction(
    "keywords:letter_frequency",
    LetterFrequencySettings,
    Example("A banana", True, {"letter": "a", "let_frequency": 4, "let_relation": "at least"}),
    Example("#one #two", False, {"letter": "#", "let_frequency": 2, "let_relation": "less than"}),
)
def letter_frequency(text: str, settings: LetterFrequencySettings) -> RowFinding:
    """The letter occurs, in either case, less than `let_frequency` times, or at least that often.

    "é" is not "e", nor is "e" with a combining accent the same as "é".
    """
    letter = settings.letter.lower()
    unit, units = f"time {letter!r}", f"times {letter!r}"
    return judge_relation(text.lower().count(letter), settings.let_relation, settings.let_frequency, unit, units)

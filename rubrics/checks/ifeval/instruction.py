"""Common parts of the 25 instructions: registration, comparison of counts, blank outputs, search for keywords.

The instructions are those of IFEval (Zhou et al. 2023, arXiv 2311.07911) with the names and settings of its data set.
They are judged one output at a time: the usual call has one output, as per-case criteria have settings of their own.

Keywords are patterns in IFEval, in any case. Most are plain words, for which Python's own search is fastest; the others
are patterns for RE2. Both searches take linear time. Letters match their lower case: "É" is "é", "ß" is not "SS".
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import (
    PASSED,
    CheckFunction,
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.regexes import Regex
from gradebook.rubrics.checks.keywords import has_whole_word

Relation = Literal["less than", "at least"]
FOLLOWED = PASSED
BLANK = RowFinding(False, "the output is blank, and a blank output follows no instruction")


def register_instruction(
    name: str, settings_model: type[CheckSettings], *examples: Example
) -> Callable[[Callable[[str, Any], RowFinding]], CheckFunction]:
    """Register the decorated function, which judges one output's text. The text is never blank."""

    def register(judge: Callable[[str, Any], RowFinding]) -> CheckFunction:
        @register_check(name, settings_model, cost="rows", examples=examples)
        @functools.wraps(judge)
        def check(shard: pa.Table, settings: Any) -> CheckVerdicts:
            texts = shard.column("output").to_pylist()
            return gather_rows(BLANK if is_blank(text) else judge(text, settings) for text in texts)

        return check

    return register


def register_column_instruction(
    name: str, settings_model: type[CheckSettings], *examples: Example
) -> Callable[[Callable[[list[str], Any], list[RowFinding]]], CheckFunction]:
    """Register the decorated function, which judges the texts of all outputs. Its findings for blank texts are
    ignored.
    """

    def register(judge: Callable[[list[str], Any], list[RowFinding]]) -> CheckFunction:
        @register_check(name, settings_model, cost="rows", examples=examples)
        @functools.wraps(judge)
        def check(shard: pa.Table, settings: Any) -> CheckVerdicts:
            texts = shard.column("output").to_pylist()
            findings = judge(texts, settings)
            return gather_rows(BLANK if is_blank(text) else findings[row] for row, text in enumerate(texts))

        return check

    return register


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def judge_relation(count: int, relation: Relation, bound: int, unit: str, units: str) -> RowFinding:
    """Compare a count with the bound: below it for "less than", at or above it for "at least"."""
    is_followed = count < bound if relation == "less than" else count >= bound
    return FOLLOWED if is_followed else _miss(count, f"{relation} {bound}", unit, units)


def judge_exact(count: int, wanted: int, unit: str, units: str) -> RowFinding:
    """Compare a count with the exact number required."""
    return FOLLOWED if count == wanted else _miss(count, f"exactly {wanted}", unit, units)


def _miss(count: int, wanted: str, unit: str, units: str) -> RowFinding:
    return RowFinding(False, f"{count} {unit if count == 1 else units}, {wanted} required")


SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
ASCII_WORD = "0-9A-Za-z_"
ANY_WORD = r"\p{L}\p{N}_"  # word characters of any script; slow to compile


def _not_empty(pattern: str) -> str:
    if pc.match_substring_regex(pa.array([""]), pattern)[0].as_py():
        raise ValueError(f"found {pattern!r}, which the empty text matches, expected a pattern of some characters")
    return pattern


# Long enough for any word, and short enough to be compared at each place of a text.
Keyword = Annotated[Regex, Field(max_length=200), AfterValidator(_not_empty)]
StrippedKeyword = Annotated[Keyword, AfterValidator(str.strip), AfterValidator(_not_empty)]


def find_keywords(texts: list[str], keywords: Sequence[str]) -> list[list[bool]]:
    """Whether each text has the keyword, in any case: [keyword] of [text]."""
    lowered = [text.lower() for text in texts]
    return [
        [*_matches(pa.array(texts, pa.string()), keyword).to_pylist()]
        if SPECIAL.search(keyword)
        else [keyword.lower() in text for text in lowered]
        for keyword in keywords
    ]


def count_keyword(texts: list[str], keyword: str) -> list[int]:
    """Number of occurrences in each text, in any case and without overlaps."""
    if SPECIAL.search(keyword):
        return [*pc.count_substring_regex(pa.array(texts, pa.string()), keyword, ignore_case=True).to_pylist()]
    word = keyword.lower()
    return [text.lower().count(word) for text in texts]


def find_words(texts: list[str], keywords: Sequence[str]) -> list[list[bool]]:
    """Find keywords as `find_keywords` does, but not next to a letter, number or underscore."""
    lowered = [text.lower() for text in texts]
    return [
        [*_find_alone(pa.array(texts, pa.string()), keyword).to_pylist()]
        if SPECIAL.search(keyword)
        else [has_whole_word(text, keyword.lower()) for text in lowered]
        for keyword in keywords
    ]


def _find_alone(texts: pa.Array, keyword: str) -> pa.BooleanArray:
    """Whether each text has the keyword as a word of its own: (text,)."""
    is_found = _matches(texts, _alone(keyword, ASCII_WORD))
    # `ASCII_WORD` does not know other letters, such as "\u00e9", which may be next to the keyword.
    is_doubtful = pc.and_not(is_found, pc.string_is_ascii(texts))
    if not is_doubtful.true_count:
        return is_found
    return pc.replace_with_mask(is_found, is_doubtful, _matches(texts.filter(is_doubtful), _alone(keyword, ANY_WORD)))


def _alone(keyword: str, word_characters: str) -> str:
    return rf"(?:\A|[^{word_characters}])(?:{keyword})(?:\z|[^{word_characters}])"


def _matches(texts: pa.Array, pattern: str) -> pa.BooleanArray:
    return pc.match_substring_regex(texts, pattern, ignore_case=True)

"""Checks of words that have to occur, or must not."""

import re
from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from rubrics.checks.columns import text_column
from rubrics.checks.evidence import cut_text, evidence_where, join_texts, quote_words
from rubrics.checks.regexes import WORD_CHARACTER
from rubrics.checks.registry import CheckSettings, CheckVerdicts, Example, register_check

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
EDGE = rf"[^{WORD_CHARACTER}]"


class KeywordSettings(CheckSettings):
    """The words, under exactly one of `any` and `all`.

    A word is any text that isn't empty, and is looked for as it stands, not as a pattern. Without `case_sensitive`,
    letters match their simple Unicode case variants ("É" is "é", "ß" is not "SS"). With `whole_word`, the character
    before it and the one after it may not be a letter, a mark, a number or an underscore.
    """

    any: Words | None = None
    """the words of which one is enough"""
    all: Words | None = None
    """the words that count together"""
    case_sensitive: bool = False
    """whether "Refund" and "refund" differ"""
    whole_word: bool = False
    """a word inside a longer one does not count: "cat" is not in "concatenate\""""

    @model_validator(mode="after")
    def _one_list_of_words(self) -> Self:
        if (self.any is None) == (self.all is None):
            found = "neither any nor all" if self.any is None else "both any and all"
            raise ValueError(f"found {found}, expected exactly one of them")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """The words, whichever list they stand in."""
        return self.any or self.all or ()


@register_check(
    "contains",
    KeywordSettings,
    examples=(
        Example("Your Refund is on its way.", True, {"any": ["refund", "money back"]}),
        Example("Your refund is on its way.", False, {"all": ["refund", "money back"]}),
    ),
)
def contains(shard: pa.Table, settings: KeywordSettings) -> CheckVerdicts:
    """The words occur: at least one of `any`, or every one of `all`. The evidence names those found or missing."""
    finds = _find_words(shard, settings)
    if settings.all is not None:
        is_passed = reduce(pc.and_, finds)
        return CheckVerdicts(is_passed, _name_words("missing ", pc.invert(is_passed), settings.all, finds, False))
    is_passed = reduce(pc.or_, finds)
    found = _name_words("found ", is_passed, settings.words, finds, True)
    return CheckVerdicts(is_passed, pc.fill_null(found, cut_text(f"found none of {quote_words(settings.words)}")))


@register_check(
    "not_contains",
    KeywordSettings,
    examples=(
        Example("We will look into it.", True, {"any": ["guarantee", "promise"]}),
        Example("We guarantee it.", False, {"any": ["guarantee", "promise"], "whole_word": True}),
    ),
)
def not_contains(shard: pa.Table, settings: KeywordSettings) -> CheckVerdicts:
    """The words do not occur: none of `any`, or not all of `all` together. The evidence names those found."""
    finds = _find_words(shard, settings)
    is_found = reduce(pc.or_ if settings.all is None else pc.and_, finds)
    return CheckVerdicts(pc.invert(is_found), _name_words("found ", is_found, settings.words, finds, True))


def _find_words(shard: pa.Table, settings: KeywordSettings) -> list[pa.BooleanArray]:
    """For each word, whether it occurs: [word] of (output,)."""
    texts = text_column(shard, "output")
    return [pc.match_substring_regex(texts, _word_pattern(word, settings)) for word in settings.words]


def _word_pattern(word: str, settings: KeywordSettings) -> str:
    pattern = re.escape(word)
    if settings.whole_word:
        pattern = rf"(?:\A|{EDGE}){pattern}(?:\z|{EDGE})"
    return pattern if settings.case_sensitive else f"(?i){pattern}"


def _name_words(
    verb: str, mask: pa.BooleanArray, words: Sequence[str], finds: Sequence[pa.BooleanArray], is_wanted: bool
) -> pa.StringArray:
    """Where the mask is true, list the words whose find is as wanted. mask and each of finds: (output,)."""
    names = [
        pc.if_else(pc.equal(is_found.filter(mask), is_wanted), repr(word), pa.scalar(None, pa.string()))
        for word, is_found in zip(words, finds, strict=True)
    ]
    listed = pc.binary_join_element_wise(*names, ", ", null_handling="skip")
    return evidence_where(mask, join_texts(verb, listed))

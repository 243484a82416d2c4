"""Checks of the start and the end of an output."""

from collections.abc import Callable
from functools import reduce
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, evidence_where, join_texts
from gradebook.rubrics.checks.keywords.keywords import Words


class AffixSettings(CheckSettings):
    """Texts of which one is required; `strip` ignores the output's whitespace on that side."""

    any: Words
    """the texts of which one is required"""
    case_sensitive: bool = True
    """whether "Sure" and "sure" differ"""
    strip: bool = True
    """ignore the output's whitespace on that side"""


class PrefixSettings(AffixSettings):
    """Settings of `starts_with`."""

    @model_validator(mode="after")
    def _prefix_can_match(self) -> Self:
        _refuse_hopeless(self, str.lstrip)
        return self


class SuffixSettings(AffixSettings):
    """Settings of `ends_with`."""

    @model_validator(mode="after")
    def _suffix_can_match(self) -> Self:
        _refuse_hopeless(self, str.rstrip)
        return self


def _refuse_hopeless(settings: AffixSettings, strip: Callable[[str], str]) -> None:
    """Refuse a text with whitespace at its edge, which a stripped output cannot match."""
    for text in settings.any:
        if settings.strip and strip(text) != text:
            raise ValueError(f"found {text!r} with strip: true, expected no whitespace at its edge, or strip: false")


@register_check(
    "starts_with",
    PrefixSettings,
    examples=(
        Example("  Dear Ada, your order is on its way.", True, {"any": ["Dear", "Hello"]}),
        Example("Sure! Here it is.", False, {"any": ["Dear", "Hello"]}),
    ),
)
def starts_with(shard: pa.Table, settings: PrefixSettings) -> CheckVerdicts:
    """The output starts with one of the texts, after any whitespace unless `strip` is false."""
    texts = text_column(shard, "output")
    texts = pc.utf8_ltrim_whitespace(texts) if settings.strip else texts
    is_passed = _match_any(pc.starts_with, texts, settings)
    excerpts = pc.utf8_slice_codeunits(texts.filter(pc.invert(is_passed)), 0, EXCERPT_CHARACTERS)
    return CheckVerdicts(is_passed, _quote_excerpts("starts with '", is_passed, excerpts))


@register_check(
    "ends_with",
    SuffixSettings,
    examples=(
        Example("Is there anything else?\n", True, {"any": ["?"]}),
        Example("Is there anything else? Bye", False, {"any": ["?"]}),
    ),
)
def ends_with(shard: pa.Table, settings: SuffixSettings) -> CheckVerdicts:
    """The output ends with one of the texts, before any whitespace unless `strip` is false."""
    texts = text_column(shard, "output")
    texts = pc.utf8_rtrim_whitespace(texts) if settings.strip else texts
    is_passed = _match_any(pc.ends_with, texts, settings)
    excerpts = pc.utf8_slice_codeunits(texts.filter(pc.invert(is_passed)), -EXCERPT_CHARACTERS, None)
    return CheckVerdicts(is_passed, _quote_excerpts("ends with '", is_passed, excerpts))


def _match_any(kernel: Callable[..., pa.BooleanArray], texts: pa.Array, settings: AffixSettings) -> pa.BooleanArray:
    ignore_case = not settings.case_sensitive
    return reduce(pc.or_, [kernel(texts, text, ignore_case=ignore_case) for text in settings.any])


def _quote_excerpts(verb: str, is_passed: pa.BooleanArray, excerpts: pa.Array) -> pa.StringArray:
    return evidence_where(pc.invert(is_passed), join_texts(verb, excerpts.cast(pa.string()), "'"))

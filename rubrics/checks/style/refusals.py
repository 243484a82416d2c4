"""Checks of refusals and of references to being an AI."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import quote_words
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.style.phrases import PhraseBook, PhraseSettings, find_phrases, read_phrases


class SelfReferenceSettings(PhraseSettings):
    """Changes to the list of self-references; `is_negated` requires one."""

    is_negated: bool = False
    """require a self-reference"""


class RefusalSettings(PhraseSettings):
    """Changes to the list of refusals, and the part of the output to search; `is_negated` requires a refusal."""

    within: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 300
    """number of characters at the start of the output that are searched"""
    is_negated: bool = False
    """require a refusal"""


@register_check(
    "no_refusal",
    RefusalSettings,
    cost="rows",
    examples=(
        Example("Here are three names for the café: ...", True),
        Example("I’m sorry, but I can’t help with that.", False),
        Example("I can't help but smile at your story.", True),
        Example("I'm unable to share personal data.", True, {"is_negated": True}),
        Example("That is out of my hands.", False, {"more": ["out of my hands"]}),
    ),
)
def no_refusal(shard: pa.Table, settings: RefusalSettings) -> CheckVerdicts:
    """The output does not begin with a refusal, or with `is_negated` it does. The evidence quotes it.

    A refusal is a phrase of the shipped list (`lists/refusals.txt`, English) or of `more`, such as "I can't help with",
    "I am unable to" or "As an AI language model, I cannot", completely within the first `within` characters, after any
    whitespace. Letters match in either case, apostrophes in any shape, and words whole. A phrase of `except` never
    counts, nor does a listed one that begins inside it. An empty output has no refusal.

    The check reads words, not intent: a refusal in other words or another language is missed, and a character who says
    "I'm unable to" in the first lines of a story is found. If that matters, use a judge.
    """
    heads = pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(text_column(shard, "output")), 0, settings.within)
    found = find_phrases(heads, _book("refusals", settings.more, settings.except_), is_quoted=True)
    return _judge(found, settings.is_negated, f"no refusal in the first {settings.within} characters")


@register_check(
    "not_as_an_ai",
    SelfReferenceSettings,
    cost="rows",
    examples=(
        Example("As an AI engineer, she trains models.", True),
        Example("As an AI language model, I have no favourite.", False),
        Example("I'm an AI, so I can't taste it.", True, {"is_negated": True}),
        Example("I am Robo, your robot friend.", False, {"more": ["your robot friend"]}),
    ),
)
def not_as_an_ai(shard: pa.Table, settings: SelfReferenceSettings) -> CheckVerdicts:
    """The output never refers to itself as an AI, or with `is_negated` it does. The evidence quotes it.

    The phrases are those of the shipped list (`lists/as_an_ai.txt`, English) and of `more`, such as "as an AI language
    model", "I'm just an AI," or "my knowledge cutoff". Letters match in either case, apostrophes in any shape, and
    words whole. A phrase of `except` never counts, nor does a listed one that begins inside it. Quoted words of
    somebody else count as the output's own.
    """
    book = _book("as_an_ai", settings.more, settings.except_)
    found = find_phrases(text_column(shard, "output"), book, is_quoted=True)
    return _judge(found, settings.is_negated, "no self-reference as an AI")


@lru_cache(maxsize=64)
def _book(name: str, more: tuple[str, ...], excepted: tuple[str, ...]) -> PhraseBook:
    return PhraseBook((*read_phrases(name), *more), excepted)


def _judge(found: Iterable[tuple[str, ...]], is_negated: bool, missing: str) -> CheckVerdicts:
    return gather_rows(_finding(phrases, is_negated, missing) for phrases in found)


def _finding(phrases: tuple[str, ...], is_negated: bool, missing: str) -> RowFinding:
    if phrases:
        return RowFinding(is_negated, f"found {quote_words(phrases)}")
    return RowFinding(not is_negated, missing if is_negated else None)

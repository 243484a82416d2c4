"""Checks of fenced code in Markdown."""

from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column, to_mask
from gradebook.rubrics.check_kit.evidence import evidence_where, join_texts
from gradebook.rubrics.checks.markdown.lines import CodeBlocks, count_places, mark_rows, split_markdown

LANGUAGE = r"^\{?\.?(?P<language>[^\s,{}]*)"  # also "{.python}" and "{python, echo=TRUE}" of Pandoc and R
PYTHON_BLOCK = "```python\nprint(1)\n```"


class CodeBlockSettings(BoundsSettings):
    """Bounds on the number of fenced code blocks."""

    language: Annotated[str, Field(pattern=r"^[^\s,{}`]+$")] | None = None
    """count only blocks whose opening fence names this language, ignoring case ("py" is not "python")"""


@register_check(
    "count_code_blocks",
    CodeBlockSettings,
    examples=(
        Example(f"Run this:\n\n{PYTHON_BLOCK}", True, {"min": 1, "language": "python"}),
        Example(f"Run this:\n\n{PYTHON_BLOCK}", False, {"min": 1, "language": "sql"}),
        Example("Run `print(1)`.", False, {"min": 1}),
    ),
)
def count_code_blocks(shard: pa.Table, settings: CodeBlockSettings) -> CheckVerdicts:
    """The number of fenced code blocks lies within the bounds.

    A block starts at a line of three or more backticks or tildes, after any indentation, quote marks and at most one
    list mark. It ends at a line of at least as many of the same character and nothing else; an unclosed block counts
    too. A shorter fence inside a longer one is content. The language is the first word after the opening fence.
    Indented code and inline code are not blocks.
    """
    texts = text_column(shard, "output")
    blocks = split_markdown(texts).blocks
    rows = blocks.rows if settings.language is None else blocks.rows[_names_language(blocks, settings.language)]
    kind = "code block" if settings.language is None else f"{settings.language} code block"
    return judge_counts(count_places(rows, len(texts)), settings, kind, f"{kind}s")


@register_check(
    "has_closed_fences",
    CheckSettings,
    examples=(
        Example(f"{PYTHON_BLOCK}\nDone.", True),
        Example("No code at all.", True),
        Example("```python\nprint(1)\n", False),
    ),
)
def has_closed_fences(shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """Every opened code fence is closed.

    Opening and closing fences are as in `count_code_blocks`. An output without a fence passes. The evidence is the line
    of the unclosed fence, counted from 1.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    is_open = ~lines.blocks.is_closed
    rows = lines.blocks.rows[is_open]  # in order, at most one per output: no fence opens inside an open one
    numbers = lines.blocks.firsts[is_open] - lines.starts[rows] + 1
    has_open = pa.array(mark_rows(rows, len(texts)))
    shown = join_texts("the fence opened in line ", pa.array(numbers).cast(pa.string()), " is not closed")
    return CheckVerdicts(pc.invert(has_open), evidence_where(has_open, shown))


def _names_language(blocks: CodeBlocks, language: str) -> Mask:
    named = pc.struct_field(pc.extract_regex(blocks.words, LANGUAGE), "language")
    return to_mask(pc.equal(pc.utf8_lower(named), language.lower()))

"""Items of Markdown lists, and the check of their number."""

from typing import Literal

import pyarrow as pa

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.markdown.lines import MarkdownLines, match_mask, split_markdown

ListKind = Literal["any", "ordered", "unordered"]
MARKS = {"any": "(?:[-*+]|[0-9]{1,9}[.)])", "ordered": "[0-9]{1,9}[.)]", "unordered": "[-*+]"}
BREAK = r"^[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,})\r?$"


class ListItemSettings(BoundsSettings):
    """Bounds on the number of items."""

    kind: ListKind = "any"
    """items to count: `ordered` (numbered), `unordered` or `any`"""


@register_check(
    "count_list_items",
    ListItemSettings,
    examples=(
        Example("1. one\n2. two\n   - nested", True, {"min": 3, "max": 3}),
        Example("1. one\n2. two\n   - nested", False, {"min": 3, "kind": "ordered"}),
    ),
)
def count_list_items(shard: pa.Table, settings: ListItemSettings) -> CheckVerdicts:
    """The number of items in Markdown lists lies within the bounds; nested items count.

    An item is a line that starts, after any spaces or tabs, with one of `- * +` or with up to nine digits and `.` or
    `)`, followed by a space or a tab and some text. Fenced code, quotes, breaks (`* * *`) and items without text do not
    count, nor does "•", which is not a Markdown mark (`count_bullets` counts it). `- - a` is one item. A line of prose
    that happens to start with "2024. " counts.
    """
    lines = split_markdown(text_column(shard, "output"))
    unit = "list item" if settings.kind == "any" else f"{settings.kind} list item"
    return judge_counts(lines.count(find_items(lines, settings.kind)), settings, unit, f"{unit}s")


def find_items(lines: MarkdownLines, kind: ListKind = "any") -> Mask:
    """Whether each line starts an item of that kind: (line,)."""
    is_item = lines.matches(rf"^[ \t]*{MARKS[kind]}[ \t].*[^{WHITESPACE}]")
    if kind != "ordered" and is_item.any():
        is_item &= ~match_mask(lines.texts, BREAK)
    return is_item

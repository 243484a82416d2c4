"""Checks of what stands within Markdown's lines: bold and links."""

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column, to_mask
from gradebook.rubrics.check_kit.regexes import WHITESPACE, WORD_CHARACTER
from gradebook.rubrics.checks.markdown.lines import MarkdownLines, Places, count_places, split_markdown

# An escaped sign, or code within a line; what is read first wins, as in "\`" and in "`\`".
LITERAL = r"\\[!-/:-@\[-`{-~]|``(?:[^`]|`[^`])+``|`[^`]+`"
LITERAL_STAND_IN = "x"
STARS = rf"\*\*\*?[^*{WHITESPACE}](?:(?:[^*]|\*[^*])*?\*?[^*{WHITESPACE}])?\*\*"
OUTSIDE = rf"[^{WORD_CHARACTER}]"
UNDERSCORES = rf"(?:^|{OUTSIDE})___?[^_{WHITESPACE}](?:(?:[^_]|_[^_])*?_?[^_{WHITESPACE}])?__(?:_|{OUTSIDE}|$)"
TARGET = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)"
IMAGE = rf"!\[(?:[^\[\]]|\[[^\[\]]*\])*\]{TARGET}"
LINK = rf"\[(?:[^\[\]]|\[[^\[\]]*\])*\]{TARGET}|(?i:https?://|\bwww\.)[^{WHITESPACE}<>\"')\]]+"


@register_check(
    "count_bold",
    BoundsSettings,
    examples=(
        Example("**Yes**, and __no__.", True, {"min": 2, "max": 2}),
        Example("2 ** 3 and `**code**`", False, {"min": 1}),
    ),
)
def count_bold(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of passages in bold lies within the bounds.

    Bold is what stands on one line between `**` and `**`, or between `__` and `__` outside a word, without whitespace
    just within them; `***bold italic***` is one. Code and escaped signs do not count. Bold that goes on over a line end
    is not found, and HTML is not read.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    rows = [_find_inline(lines, STARS, "**"), _find_inline(lines, UNDERSCORES, "__")]
    counts = count_places(np.concatenate(rows), len(texts))
    return judge_counts(counts, settings, "bold passage", "bold passages")


@register_check(
    "count_links",
    BoundsSettings,
    examples=(
        Example("See [the guide](guide.md) or https://example.org.", True, {"min": 2, "max": 2}),
        Example("![a chart](chart.png)", False, {"min": 1}),
    ),
)
def count_links(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of Markdown links and bare addresses lies within the bounds, wherever the links lead.

    For web addresses alone, the domains they may lead to, or other schemes, there is `count_urls`.

    A link in Markdown is `[text](target)`, whatever the target is, and counts once; an image is none, but a link around
    one is. A bare address starts with http://, https:// or www. anywhere, so also in angle brackets, in HTML and in the
    definition that a link like `[text][1]` stands for; the places that use the definition are not counted. Code and
    e-mail addresses do not count. Whether a target is there is not looked up.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    counts = count_places(_find_inline(lines, LINK, "](", "://", "www.", left_out=IMAGE), len(texts))
    return judge_counts(counts, settings, "link", "links")


def _find_inline(lines: MarkdownLines, pattern: str, *signs: str, left_out: str | None = None) -> Places:
    """The output of each match outside code. Only lines with one of the signs can match."""
    has_sign = reduce(pc.or_, [pc.match_substring(lines.texts, sign, ignore_case=sign == "www.") for sign in signs])
    is_likely = to_mask(has_sign) & ~lines.is_code
    if not is_likely.any():
        return np.zeros(0, np.int64)
    likely = pc.replace_substring_regex(lines.texts.filter(pa.array(is_likely)), LITERAL, LITERAL_STAND_IN)
    if left_out is not None:
        likely = pc.replace_substring_regex(likely, left_out, LITERAL_STAND_IN)
    return lines.rows[is_likely].repeat(pc.count_substring_regex(likely, pattern).to_numpy())

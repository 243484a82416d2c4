"""Checks of inline Markdown: bold and links."""

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column, to_mask
from gradebook.rubrics.check_kit.regexes import WHITESPACE, WORD_CHARACTER
from gradebook.rubrics.checks.markdown.lines import MarkdownLines, Places, count_places, split_markdown

# Escaped character or inline code; the first match wins, as in "\`" and in "`\`".
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
    """The number of bold passages lies within the bounds.

    Bold is text on one line between `**` and `**`, or between `__` and `__` outside a word, without whitespace next to
    the marks; `***bold italic***` is one passage. Code and escaped marks do not count. Bold across a line end is not
    found, and HTML is not read.
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

    Use `count_urls` for web addresses only, for the domains that links may lead to, or for other schemes.

    A Markdown link is `[text](target)` with any target and counts once; an image is not a link, but a link around one
    is. A bare address starts with http://, https:// or www. anywhere, including angle brackets, HTML and the definition
    of a reference link such as `[text][1]`; uses of the definition are not counted. Code and e-mail addresses do not
    count. Targets are not looked up.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    counts = count_places(_find_inline(lines, LINK, "](", "://", "www.", ignored=IMAGE), len(texts))
    return judge_counts(counts, settings, "link", "links")


def _find_inline(lines: MarkdownLines, pattern: str, *signs: str, ignored: str | None = None) -> Places:
    """Output of each match outside code. Only lines with one of the signs can match. ignored: a pattern to ignore."""
    has_sign = reduce(pc.or_, [pc.match_substring(lines.texts, sign, ignore_case=sign == "www.") for sign in signs])
    is_likely = to_mask(has_sign) & ~lines.is_code
    if not is_likely.any():
        return np.zeros(0, np.int64)
    likely = pc.replace_substring_regex(lines.texts.filter(pa.array(is_likely)), LITERAL, LITERAL_STAND_IN)
    if ignored is not None:
        likely = pc.replace_substring_regex(likely, ignored, LITERAL_STAND_IN)
    return lines.rows[is_likely].repeat(pc.count_substring_regex(likely, pattern).to_numpy())

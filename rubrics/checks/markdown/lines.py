"""Markdown by line: the lines of a shard's outputs and their fenced code.

A line ends with LF; a CR before it stays and counts as whitespace. A fence is three or more backticks or tildes after
any indentation, quote marks and at most one list mark. It is closed by a line of at least as many of the same character
and nothing else, indented at most three columns further; unclosed, it extends to the end of the output.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.columns import Mask, to_mask
from gradebook.rubrics.check_kit.regexes import WHITESPACE

Indices = NDArray[np.int64]

# A line has no backtick after a fence of backticks: "```x```" is inline code.
FENCE = r"^[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(?:`{3,}[^`]*|~{3,}.*)$"
FENCE_PARTS = r"^(?P<quote>[ \t>]*)(?P<mark>(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>.*)$"
MOST_FURTHER_IN = 3
NOT_BLANK = rf"[^{WHITESPACE}]"


@dataclass(frozen=True, slots=True)
class CodeBlocks:
    """Fenced code of a shard, in order. All: (block,).

    rows: the output. firsts: line of the opening fence. lasts: line of the closing fence, or the output's last.
    info_strings: text after the opening fence.
    """

    rows: Indices
    firsts: Indices
    lasts: Indices
    is_closed: Mask
    info_strings: pa.Array


@dataclass(frozen=True, slots=True)
class MarkdownLines:
    """Lines of a shard's outputs, in order.

    texts: (line,). rows: (line,), output of each line. starts: (output + 1,), first line of each output. is_code:
    (line,), includes the fences.
    """

    texts: pa.Array
    rows: Indices
    starts: Indices
    blocks: CodeBlocks
    is_code: Mask

    def matches(self, pattern: str) -> Mask:
        """Whether each line matches and is not code: (line,)."""
        return match_mask(self.texts, pattern) & ~self.is_code

    def count(self, is_counted: Mask) -> pa.Int64Array:
        """Number of marked lines of each output: (output,)."""
        return count_by_row(self.rows[is_counted], len(self.starts) - 1)


def split_markdown(texts: pa.Array) -> MarkdownLines:
    """Split the outputs into lines and find their fenced code. texts: (output,), string or large_string."""
    line_lists = pc.split_pattern(texts, "\n")
    starts = line_lists.offsets.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(texts)), np.diff(starts))
    lines = line_lists.flatten()
    blocks = _find_blocks(lines, rows, starts)
    return MarkdownLines(lines, rows, starts, blocks, spread_ranges(blocks.firsts, blocks.lasts + 1, len(lines)))


def spread_ranges(firsts: Indices, stops: Indices, line_count: int) -> Mask:
    """Mark the lines of non-overlapping ranges: (line,). firsts, stops: (range,); a stop is after the last line."""
    turns = np.zeros(line_count + 1, np.int8)
    turns[firsts] = 1
    turns[stops] -= 1
    is_inside: Mask = np.cumsum(turns[:line_count], dtype=np.int8) > 0
    return is_inside


def match_mask(texts: pa.Array, pattern: str) -> Mask:
    """Whether each text matches: (text,)."""
    return to_mask(pc.match_substring_regex(texts, pattern))


def count_by_row(rows: Indices, row_count: int) -> pa.Int64Array:
    """Count of each output index in `rows`: (output,)."""
    return pa.array(np.bincount(rows, minlength=row_count).astype(np.int64))


def mark_rows(rows: Indices, row_count: int) -> Mask:
    """Whether each output index is in `rows`: (output,)."""
    is_marked = np.zeros(row_count, np.bool_)
    is_marked[rows] = True
    return is_marked


def _find_blocks(lines: pa.Array, rows: Indices, starts: Indices) -> CodeBlocks:
    fence_lines = np.flatnonzero(match_mask(lines, FENCE))
    if not len(fence_lines):
        no_lines = fence_lines.astype(np.int64)
        return CodeBlocks(no_lines, no_lines, no_lines, no_lines > 0, pa.nulls(0, pa.string()))
    fences = pc.extract_regex(lines.take(pa.array(fence_lines)), FENCE_PARTS)
    pairs = np.array(_pair_fences(fences, rows[fence_lines]), np.int64).reshape(-1, 2)
    opening_fences, closing_fences = pairs[:, 0], pairs[:, 1]
    is_closed = closing_fences >= 0
    firsts = fence_lines[opening_fences]
    block_rows = rows[firsts]
    lasts = starts[block_rows + 1] - 1
    lasts[is_closed] = fence_lines[closing_fences[is_closed]]
    info_strings = pc.utf8_trim_whitespace(pc.struct_field(fences, "info")).take(pa.array(opening_fences))
    return CodeBlocks(block_rows, firsts, lasts, is_closed, info_strings)


def _pair_fences(fences: pa.StructArray, rows: Indices) -> list[tuple[int, int]]:
    """Pair each opening fence with its closing one, by index; -1 if it is not closed.

    fences: (fence,), the groups of `FENCE_PARTS`. rows: (fence,).
    """
    quote, mark, fence, info = (pc.struct_field(fences, name) for name in ("quote", "mark", "fence", "info"))
    indents = (pc.binary_length(quote).to_numpy() + pc.binary_length(mark).to_numpy()).tolist()
    is_bare = to_mask(pc.and_(pc.equal(mark, ""), pc.equal(pc.utf8_trim_whitespace(info), ""))).tolist()
    widths = pc.binary_length(fence).to_pylist()
    signs = pc.utf8_slice_codeunits(fence, 0, 1).to_pylist()
    pairs: list[tuple[int, int]] = []
    open_at, open_row = -1, -1
    for index, row in enumerate(rows.tolist()):
        if row != open_row:
            open_at, open_row = index, row
            pairs.append((index, -1))
        elif (
            is_bare[index]
            and signs[index] == signs[open_at]
            and widths[index] >= widths[open_at]
            and indents[index] <= indents[open_at] + MOST_FURTHER_IN
        ):
            pairs[-1] = (open_at, index)
            open_row = -1
    return pairs

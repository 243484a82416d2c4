"""Fast, exact word counts: whitespace is found in the UTF-8 bytes."""

import numpy as np
import pyarrow as pa

from gradebook.rubrics.check_kit.columns import Mask
from gradebook.rubrics.checks.length.blocks import Bytes, Offsets, count_before, text_blocks

TWO_BYTE_LEAD = 0xC2
TWO_BYTE_SPACES = (0x85, 0xA0)  # U+0085, U+00A0
THREE_BYTE_LEADS = (0xE1, 0xE2, 0xE3)
THREE_BYTE_SPACES = np.array(
    [
        int.from_bytes(chr(point).encode())
        for point in (0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
    ]
)


def count_words(texts: pa.Array) -> pa.Int64Array:
    """Count the maximal runs of non-whitespace, as `len(text.split())` does.

    texts: (output,), string or large_string, may be a slice, valid UTF-8. Returns (output,).
    """
    counts = np.zeros(len(texts), np.int64)
    for rows, content, edges in text_blocks(texts):
        counts[rows] = np.diff(count_before(_find_starts(content, edges), edges))
    return pa.array(counts)


def _find_starts(content: Bytes, edges: Offsets) -> Mask:
    """Mark the first byte of each word: (byte,)."""
    is_space = _find_spaces(content)
    is_start = np.empty(len(content), np.bool_)
    np.greater(is_space[:-1], is_space[1:], out=is_start[1:])
    row_starts = edges[:-1][edges[:-1] < len(content)]
    is_start[row_starts] = ~is_space[row_starts]  # the byte before a row belongs to another row
    return is_start


def _find_spaces(content: Bytes) -> Mask:
    """Mark every byte of every whitespace character. content: (byte,). Returns (byte,)."""
    is_space: Mask = content - np.uint8(0x09) <= 4  # U+0009..000D; below 9 the subtraction wraps around
    is_space |= content - np.uint8(0x1C) <= 4  # U+001C..0020
    if content.max() >= TWO_BYTE_LEAD:
        _mark_wide_spaces(content, is_space)
    return is_space


def _mark_wide_spaces(content: Bytes, is_space: Mask) -> None:
    """Mark the bytes of two-byte and three-byte whitespace. Both arrays: (byte,)."""
    pairs = np.flatnonzero(content == TWO_BYTE_LEAD)
    pairs = pairs[np.isin(content.take(pairs + 1, mode="clip"), TWO_BYTE_SPACES)]
    triples = np.flatnonzero(content - np.uint8(THREE_BYTE_LEADS[0]) < len(THREE_BYTE_LEADS))
    code = content[triples].astype(np.int64) << 16
    code |= content.take(triples + 1, mode="clip").astype(np.int64) << 8
    code |= content.take(triples + 2, mode="clip")
    triples = triples[np.isin(code, THREE_BYTE_SPACES)]
    for places in (pairs, pairs + 1, triples, triples + 1, triples + 2):
        is_space[places] = True

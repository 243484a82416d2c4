"""Counting words fast and exactly: whitespace is found in the UTF-8 bytes themselves, a block of rows at a time."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]

BLOCK_BYTES = 1 << 19  # stays in a core's cache
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
    """Count the maximal runs of non-whitespace, with the same counts as `len(text.split())`.

    texts: (output,), string or large_string, may be a slice, valid UTF-8. Returns (output,).
    """
    counts = np.zeros(len(texts), np.int64)
    if len(texts) and texts.buffers()[2] is not None:
        offsets, content = _text_buffers(texts)
        for first, last in _row_blocks(offsets):
            start, stop = offsets[first], offsets[last]
            counts[first:last] = _count_block(content[start:stop], offsets[first : last + 1] - start)
    return pa.array(counts)


def _text_buffers(texts: pa.Array) -> tuple[Offsets, Bytes]:
    """The row edges, (output + 1,), in bytes of the content; and the content, (byte,)."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, edges, content = texts.buffers()
    offsets = np.frombuffer(edges, width)[texts.offset : texts.offset + len(texts) + 1]
    return offsets.astype(np.int64), np.frombuffer(content, np.uint8)


def _row_blocks(offsets: Offsets) -> Iterator[tuple[int, int]]:
    """Ranges of rows, each of about `BLOCK_BYTES` and at least one row."""
    first, row_count = 0, len(offsets) - 1
    while first < row_count:
        beyond = int(np.searchsorted(offsets, offsets[first] + BLOCK_BYTES, side="right"))
        last = min(max(beyond - 1, first + 1), row_count)
        yield first, last
        first = last


def _count_block(content: Bytes, offsets: Offsets) -> Offsets:
    """Words in each row of a block. content: (byte,). offsets: (row + 1,), from 0. Returns (row,)."""
    if not len(content):
        return np.zeros(len(offsets) - 1, np.int64)
    is_space = _find_spaces(content)
    is_start = np.empty(len(content), np.bool_)
    np.greater(is_space[:-1], is_space[1:], out=is_start[1:])
    row_starts = offsets[:-1][offsets[:-1] < len(content)]
    is_start[row_starts] = ~is_space[row_starts]  # the byte before a row belongs to another row
    return np.diff(np.searchsorted(np.flatnonzero(is_start), offsets))


def _find_spaces(content: Bytes) -> Mask:
    """Mark every byte of every whitespace character. content: (byte,). Returns (byte,)."""
    is_space: Mask = content - np.uint8(0x09) <= 4  # U+0009..000D; below 9 the subtraction wraps around
    is_space |= content - np.uint8(0x1C) <= 4  # U+001C..0020
    if content.max() >= TWO_BYTE_LEAD:
        _mark_wide_spaces(content, is_space)
    return is_space


def _mark_wide_spaces(content: Bytes, is_space: Mask) -> None:
    """Mark the bytes of whitespace of two and three bytes. Both arrays: (byte,)."""
    pairs = np.flatnonzero(content == TWO_BYTE_LEAD)
    pairs = pairs[np.isin(content.take(pairs + 1, mode="clip"), TWO_BYTE_SPACES)]
    triples = np.flatnonzero(content - np.uint8(THREE_BYTE_LEADS[0]) < len(THREE_BYTE_LEADS))
    code = content[triples].astype(np.int64) << 16
    code |= content.take(triples + 1, mode="clip").astype(np.int64) << 8
    code |= content.take(triples + 2, mode="clip")
    triples = triples[np.isin(code, THREE_BYTE_SPACES)]
    for places in (pairs, pairs + 1, triples, triples + 1, triples + 2):
        is_space[places] = True

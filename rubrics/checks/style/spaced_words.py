"""Texts as columns of words: split at whitespace, with a vocabulary of distinct words."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

# Thai to Lao, Burmese, Khmer, kana, Han and its extensions: scripts without spaces between words.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
BLOCK_BYTES = 1 << 21


class WordColumn(NamedTuple):
    """Words of a column of texts, one text after another.

    ids: (word,), index into the vocabulary. rows: (word,), text of each word, ascending. vocabulary: (distinct word,).
    """

    ids: Numbers
    rows: Numbers
    vocabulary: pa.Array


def split_words(texts: pa.Array) -> WordColumn:
    """Split texts at whitespace. texts: (text,), string or large_string, without nulls."""
    words = pc.utf8_split_whitespace(texts)
    encoded = words.flatten().dictionary_encode()
    ids = encoded.indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(texts)), pc.list_value_length(words).to_numpy())
    # whitespace at an end of a text gives an empty word
    return without_empty(WordColumn(ids, rows, encoded.dictionary))


def without_empty(words: WordColumn) -> WordColumn:
    """Drop empty words."""
    is_word = (pc.binary_length(words.vocabulary).to_numpy() > 0)[words.ids]
    return WordColumn(words.ids[is_word], words.rows[is_word], words.vocabulary)


def text_blocks(texts: pa.Array) -> Iterator[pa.Array]:
    """Slice the column into blocks of about `BLOCK_BYTES`, at least one text each, to bound memory."""
    if texts.nbytes <= BLOCK_BYTES:
        yield texts
        return
    ends = np.cumsum(pc.binary_length(texts).to_numpy(), dtype=np.int64)
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + BLOCK_BYTES, side="right")), first + 1)
        yield texts.slice(first, last - first)
        first = last

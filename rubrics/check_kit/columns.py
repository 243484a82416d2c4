"""Columns of a shard as Arrow and numpy arrays, and the column of evidence.

Evidence is one short text for each row that needs one, null for the others.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def text_column(shard: pa.Table, name: str) -> pa.StringArray:
    """Column of a shard as one array: (output,), string or large_string.

    Raises `KeyError` if the shard has no such column.
    """
    column = shard.column(name)
    # Combining a single chunk would copy all text of the shard for each check.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def to_mask(values: pa.BooleanArray) -> Mask:
    """Convert an Arrow array without nulls to a numpy mask."""
    mask: Mask = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


MOST_EVIDENCE_CHARACTERS = 200
EXCERPT_CHARACTERS = 60


def quote_words(words: Sequence[str]) -> str:
    """Join words for a message, each in quotes."""
    return ", ".join(repr(word) for word in words)


def evidence_where(mask: pa.BooleanArray, texts: pa.Array | str) -> pa.StringArray:
    """Put texts where the mask is true, null elsewhere.

    mask: (output,), null counts as false. texts: one for each true row in order, or one for all of them. Returns
    (output,), each cut to `MOST_EVIDENCE_CHARACTERS`.
    """
    values = pa.scalar(cut_text(texts)) if isinstance(texts, str) else cut_texts(texts, MOST_EVIDENCE_CHARACTERS)
    return pc.replace_with_mask(pa.nulls(len(mask), pa.string()), pc.fill_null(mask, False), values)


def cut_text(text: str, limit: int = MOST_EVIDENCE_CHARACTERS) -> str:
    """Cut a text to `limit` characters, the last one an ellipsis. Characters that UTF-8 cannot encode become `?`."""
    is_long = len(text) > limit
    excerpt = text[: limit - 1] + "…" if is_long else text
    return excerpt.encode("utf-8", "replace").decode("utf-8")


def cut_texts(texts: pa.Array, limit: int) -> pa.StringArray:
    """Cut each text of an array as `cut_text` does: (output,)."""
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) <= limit:
        return texts.cast(pa.string())
    excerpts = pc.utf8_slice_codeunits(texts, 0, limit)
    marked = pc.binary_join_element_wise(pc.utf8_slice_codeunits(excerpts, 0, limit - 1).cast(pa.string()), "…", "")
    is_long = pc.greater(sizes, pc.binary_length(excerpts))
    return pc.if_else(is_long, marked, excerpts.cast(pa.string()))


def join_texts(*parts: pa.Array | str) -> pa.StringArray:
    """Concatenate arrays and constants row by row. At least one array: (output,)."""
    return pc.binary_join_element_wise(*parts, "")

"""A shard's columns as arrays, of Arrow and of numpy."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def text_column(shard: pa.Table, name: str) -> pa.StringArray:
    """The named column of a shard as one array: (output,), string or large_string.

    Raises `KeyError` where the shard has no such column.
    """
    column = shard.column(name)
    # To combine a single chunk would copy it: all of a shard's text anew for each check.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def to_mask(values: pa.BooleanArray) -> Mask:
    """The values, none of them null, as an array of numpy."""
    mask: Mask = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask

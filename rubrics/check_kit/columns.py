"""Columns of a shard as Arrow and numpy arrays."""

import numpy as np
import pyarrow as pa
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

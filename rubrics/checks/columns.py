"""Reading a shard's text column as one array."""

import pyarrow as pa


def text_column(shard: pa.Table, name: str) -> pa.StringArray:
    """The named column of a shard as one array: (output,), string or large_string.

    Raises `KeyError` where the shard has no such column.
    """
    return shard.column(name).combine_chunks()

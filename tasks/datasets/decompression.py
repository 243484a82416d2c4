"""Decompression as a stream, with limits against decompression bombs."""

import errno
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import Fault, OutputsError

BUFFER_BYTES = 2**20
BATCH_BYTES = 2**24  # most bytes of a Parquet file in memory at once
MOST_ROW_BYTES = 2**26  # a longer line means that the file is of another format
# Sizes up to this are harmless. Rows with a repeated long prompt compress well: 50 times is common, 200 is not.
FREE_BYTES = 2**26
MOST_RATIO = 200
# Parquet dictionaries write each text once, and users can't avoid them, so only absurd ratios are refused.
MOST_PARQUET_RATIO = 1_000
VALUE_BYTES = 8
OBJECT_BYTES = 32  # of each entry of a list, beyond its value: Arrow packs eight booleans into a byte
MOST_VALUES = 1_000_000  # of a row: each becomes an object of 60 bytes and more, and takes two in the file
_VALUE_MARKS = b",:[{"
# A mark of a value, or a whole text: an unclosed one ends with the file, so that each byte is looked at once.
_MARK = re.compile(rb'[,:\[{]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)


class _MeasuredStream(io.RawIOBase):
    """Decompressed stream that limits the ratio of bytes given to bytes read."""

    def __init__(self, path: Path, compression: Literal["gzip", "zstd"]) -> None:
        self._path, self._unpacked = path, 0
        self._packed = pa.OSFile(str(path))
        self._stream = pa.CompressedInputStream(self._packed, compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._stream.readinto(buffer)
        self._unpacked += count
        packed = self._packed.tell()
        if self._unpacked > max(FREE_BYTES, MOST_RATIO * packed):
            actual = f"found {packed:,} packed bytes that stand for more than {self._unpacked - 1:,}"
            expected = f"expected at most {MOST_RATIO} times as many; if it is meant so, give the file unpacked"
            raise OutputsError((Fault(str(self._path), None, f"{actual}, {expected}"),))
        return count

    def close(self) -> None:
        self._stream.close()
        self._packed.close()
        super().close()


def open_decompressed(path: Path, compression: Literal["gzip", "zstd"] | None) -> IO[bytes]:
    """Open a file as a decompressed stream. Reading raises `OutputsError` if its compression ratio is too high.

    Raises `OSError` for a FIFO or a device, which may have no end.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "neither a file nor a link to one", str(path))
    if compression is None:
        return io.BufferedReader(pa.input_stream(str(path), compression=None), BUFFER_BYTES)
    return io.BufferedReader(_MeasuredStream(path, compression), BUFFER_BYTES)


def value_fault(text: bytes, most: int = MOST_VALUES) -> str | None:
    """Fault of JSON or CSV text with more values than `most`; None if there is none. Bounds the objects made of it."""
    if len(text) <= most or sum(text.count(mark) for mark in _VALUE_MARKS) <= most:
        return None
    marks = (1 for match in _MARK.finditer(text) if match[0][:1] != b'"')
    return f"found more than {most:,} values, expected fewer" if sum(islice(marks, most + 1)) > most else None


def text_columns(parquet_schema: pq.ParquetSchema) -> list[str]:
    """Paths of the columns to read as dictionaries: a text written once per page is then in memory once."""
    columns = map(parquet_schema.column, range(len(parquet_schema)))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def batch_rows(path: Path, metadata: pq.FileMetaData) -> int:
    """Number of rows to read at once, so that long outputs do not fill the memory.

    Raises `OutputsError` if the metadata promises implausibly many values for the file's size.
    """
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    sizes = [(group.num_rows, max(group.total_byte_size, VALUE_BYTES * _value_count(group))) for group in groups]
    _refuse_oversized(path, sum(size for _, size in sizes))
    widest = max((size / max(row_count, 1) for row_count, size in sizes), default=0)
    return max(1, min(8192, int(BATCH_BYTES // max(widest, 1))))


def decoded_rows(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Rows of batches with dictionary-encoded texts, decoded a few megabytes at a time.

    Raises `OutputsError` if a row, or all rows together, are too large for the file's size.
    """
    byte_count = 0
    for batch in batches:
        for piece, size in _pieces(path, batch):
            byte_count += size
            _refuse_oversized(path, byte_count)
            yield from _decode_texts(piece).to_pylist()


def _refuse_oversized(path: Path, byte_count: int) -> None:
    packed = path.stat().st_size
    if byte_count > max(FREE_BYTES, MOST_PARQUET_RATIO * packed):
        actual = f"found a Parquet file of {packed:,} bytes whose rows take {byte_count:,} and more"
        raise OutputsError(
            (Fault(str(path), None, f"{actual}, expected at most {MOST_PARQUET_RATIO:,} times as many"),)
        )


def _value_count(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(index).num_values for index in range(group.num_columns))


def _pieces(path: Path, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Split a batch into pieces small enough to decode, each with its decoded bytes."""
    size = sum(map(_dense_bytes, batch.columns))
    if size <= BATCH_BYTES or batch.num_rows == 1:
        if size > MOST_ROW_BYTES:
            message = f"found a row of {size:,} bytes, expected at most {MOST_ROW_BYTES:,}"
            raise OutputsError((Fault(str(path), None, message),))
        yield batch, size
        return
    half = batch.num_rows // 2
    yield from _pieces(path, batch.slice(0, half))
    yield from _pieces(path, batch.slice(half))


def _dense_bytes(values: pa.Array) -> int:
    """Size of the values in bytes once decoded, with the objects that entries of lists become."""
    if pa.types.is_dictionary(values.type):
        sizes = pc.binary_length(values.dictionary).cast(pa.int64())
        return int(pc.sum(sizes.take(values.indices)).as_py() or 0)
    if pa.types.is_struct(values.type):
        return sum(map(_dense_bytes, values.flatten()))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        flat = values.flatten()
        return _dense_bytes(flat) + OBJECT_BYTES * len(flat)
    if pa.types.is_map(values.type):
        entries = values.slice(0)
        first, last = entries.offsets[0].as_py(), entries.offsets[len(entries)].as_py()
        columns = [part.slice(first, last - first) for part in (values.keys, values.items)]
        return sum(_dense_bytes(part) + OBJECT_BYTES * len(part) for part in columns)
    return int(values.nbytes)


def _decode_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Batch with its text columns decoded; texts within lists and structs stay dictionaries."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

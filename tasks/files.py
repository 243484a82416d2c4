"""Files that are whole or not there: written under a temporary name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def temporary_path(path: Path) -> Path:
    """Where this process writes a file before it takes its name."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replaced_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with replaced_file(path) as temporary:
        temporary.write_bytes(content)


def append_whole(file: int | None, lines: bytes, *, is_synced: bool = False) -> str | None:
    """Append lines to an open file in one call; what went wrong, if anything: after half a line nothing may follow.

    file: None where it is closed. is_synced: the disk has them on return; else the kernel.
    """
    if file is None:
        return "it is closed"
    try:
        is_whole = os.write(file, lines) == len(lines)
        if is_synced:
            os.fsync(file)
        return None if is_whole else "the disk is full"
    except OSError as error:
        return error.strerror or str(error)


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a Parquet file (zstd), whole or not at all."""
    with replaced_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=1)

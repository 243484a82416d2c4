"""Atomic files: written under a temporary name, then renamed; and appends of whole lines."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import UnfinishedError


def temporary_path(path: Path) -> Path:
    """Temporary name of a file, unique to this process across machines."""
    return path.with_name(f".{path.name}.{os.getpid()}-{_mark_of(os.getpid())}.tmp")


@cache
def _mark_of(_process: int) -> str:
    """Random mark that separates processes with the same id on machines or containers sharing a folder."""
    return secrets.token_hex(4)


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; it replaces `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replaced_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replaced_file(path) as temporary:
        temporary.write_bytes(content)


def append_whole(file: int | None, lines: bytes, *, is_synced: bool = False) -> str | None:
    """Append lines to an open file in one call; returns the fault, if any: nothing may follow half a line.

    file: None if closed. is_synced: wait until the lines are on disk, not only in the kernel.
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


def append_lines(path: Path, lines: bytes) -> None:
    """Append lines to a file, all or none, under a lock. Raises `OSError` if there is no room."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # else the truncation below could remove another process's lines
        size = os.fstat(descriptor).st_size
        # One write is whole or absent after a SIGKILL. A nearly full disk takes a part of it.
        if os.write(descriptor, lines) < len(lines):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a Parquet file (zstd) atomically."""
    with replaced_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=1)


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = ("no space left on device", "disk is full", "disk quota exceeded", "file too large")


@contextmanager
def translate_full_disk(name: str) -> Iterator[None]:
    """Raise `UnfinishedError` if the disk is full during the block. name: of the lake."""
    try:
        yield
    except (OSError, duckdb.Error) as error:
        if not is_full(error):
            raise
        first_line = str(error).splitlines()[0]
        raise UnfinishedError(
            f"{name}: the disk is full: {first_line}; make room, and the same command goes on"
        ) from error


def is_full(error: Exception) -> bool:
    """Whether the error means that the disk is full."""
    return getattr(error, "errno", None) in _FULL or any(word in str(error).lower() for word in _FULL_WORDS)

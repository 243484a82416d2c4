"""Atomic files: written under a temporary name, then renamed; appends of whole lines; and fsync of both."""

import errno
import fcntl
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError, UnfinishedError


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


def write_bytes(path: Path, content: bytes, *, is_synced: bool = False) -> None:
    """Write a file atomically. is_synced: wait until it is on disk."""
    with replaced_file(path) as temporary:
        temporary.write_bytes(content)
        if is_synced:
            sync_path(temporary)
    if is_synced:
        sync_path(path.parent)


def append_whole(file: int | None, lines: bytes, *, is_synced: bool = False) -> str | None:
    """Append lines to an open file in one call; returns the fault, if any: a line may be cut, so append no more.

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


def refuse_file(option: str, path: Path, suffixes: Sequence[str], expected: str) -> None:
    """Raise `InputError` if an option can't write a new file: the path has another suffix, or the file exists."""
    if path.suffix not in suffixes:
        raise InputError(option, str(path), expected)
    if path.exists():
        raise InputError(option, f"{path}, which exists", "a new file")


def try_lock(path: Path) -> int | None:
    """Lock a file, created if missing; returns a descriptor, whose closing unlocks it. None if it is locked already."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def append_lines(path: Path, lines: bytes) -> None:
    """Append lines to a file, all or none, under a lock. Raises `OSError` if there is no room."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # else the truncation below could remove another process's lines
        size = os.fstat(descriptor).st_size
        # After a SIGKILL one write is complete or absent. A nearly full disk stores only a part.
        if os.write(descriptor, lines) < len(lines):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


# Options of a run's Parquet files: a reader that verifies the checksums detects every changed bit of a page.
PARQUET_SETTINGS: Mapping[str, Any] = MappingProxyType({"compression": "zstd", "write_page_checksum": True})


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a Parquet file (zstd) atomically."""
    with replaced_file(path) as temporary:
        pq.write_table(table, temporary, compression_level=1, **PARQUET_SETTINGS)


MOST_UNSYNCED_S = 0.05
MOST_UNSYNCED_COUNT = 64
_CLOCK_MARGIN_S = 2.0  # file systems have clocks of their own


class GroupCommit:
    """Thread that syncs an appended file to disk, at most 50 ms or 64 appends after a change.

    After a power cut only the appends of these last milliseconds may be missing.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._changed = threading.Condition()
        self._unsynced_count = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.fault: str | None = None  # fault of an earlier fsync: appended lines may be lost

    def note(self) -> None:
        """Count an append."""
        with self._changed:
            self._unsynced_count += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="group commit", daemon=True)
                self._thread.start()
            if self._unsynced_count in (1, MOST_UNSYNCED_COUNT):
                self._changed.notify()

    def close(self) -> None:
        """Bring the last appends to disk; the file stays open."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._is_due():
            try:
                os.fsync(self._file)
            except OSError as error:
                self.fault = error.strerror or str(error)

    def _is_due(self) -> bool:
        """Wait for the next fsync; False after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._unsynced_count or self._is_closed)
            self._changed.wait_for(
                lambda: self._unsynced_count >= MOST_UNSYNCED_COUNT or self._is_closed, MOST_UNSYNCED_S
            )
            is_due = self._unsynced_count > 0
            self._unsynced_count = 0
            return is_due


def sync_path(path: str | Path) -> None:
    """Bring a file, or a folder's names, to disk; does nothing if it is gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_new_files(folder: Path, since: float) -> list[str]:
    """Sync files and folders that were put into or below a folder since a time, and the folders that list them.

    Returns the paths of these files and folders. Linked and renamed files count as new, as linking changes a file's
    status. since: seconds since the epoch.
    """
    since -= _CLOCK_MARGIN_S
    new_paths = [str(folder.parent)] if _is_newer(str(folder.parent), since) else []
    for parent, _, names in os.walk(folder):
        if _is_newer(parent, since):
            files = (f"{parent}/{name}" for name in names)
            new_paths += [*(file for file in files if _is_newer(file, since)), parent]
    for path in new_paths:
        sync_path(path)
    return new_paths


def _is_newer(path: str, since: float) -> bool:
    try:
        return os.stat(path).st_ctime >= since  # noqa: PTH116 - of each file of a lake
    except FileNotFoundError:
        return False


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = (
    *("no space left on device", "disk is full", "disk quota exceeded", "file too large"),
    "cannot rollback - no transaction is active",  # SQLite has rolled back by itself, as it could not write its file
)


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
            f"{name}: the disk is full: {first_line}; make room, and the same command resumes"
        ) from error


def is_full(error: Exception) -> bool:
    """Whether the error means that the disk is full."""
    return getattr(error, "errno", None) in _FULL or any(word in str(error).lower() for word in _FULL_WORDS)

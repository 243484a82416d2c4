"""A disk that is full, told as what it is: nobody's mistake, and worth a rerun."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from gradebook.rubrics.errors import UnfinishedError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = ("no space left on device", "disk is full", "disk quota exceeded", "file too large")


@contextmanager
def told_storage_faults(name: str) -> Iterator[None]:
    """Raise `UnfinishedError` where the block found no room. name: of the lake."""
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
    """Whether there was no room for what was to be written."""
    return getattr(error, "errno", None) in _FULL or any(word in str(error).lower() for word in _FULL_WORDS)

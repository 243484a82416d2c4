"""Whether a process works on a run, asked from outside."""

import fcntl
import os
import re
from pathlib import Path

from gradebook.tasks.workspace import RunFolder

LOCKS = Path("/proc/locks")
_FILE = re.compile(r"FLOCK .* ([0-9a-f]+:[0-9a-f]+:\d+) ")


def is_at_work(folder: RunFolder) -> bool:
    """Whether a process works on a run.

    The kernel's list is asked first: a lock taken to see whether there is one could turn away a run that begins in the
    same instant. It does not name processes of other machines and containers, nor some file systems' files as they name
    themselves, so where it names none the lock is tried, shared, for a moment.
    """
    try:
        file = os.open(folder.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if _listed_as(os.fstat(file)) in _held_files():
            return True
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _listed_as(file: os.stat_result) -> str:
    """How the kernel lists a file: another file system may have a file of the same number."""
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def _held_files() -> set[str]:
    try:
        return set(_FILE.findall(LOCKS.read_text(encoding="ascii")))
    except OSError:
        return set()

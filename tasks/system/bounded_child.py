"""A call in a child process, which Ctrl-C and a time limit end at once, whatever code runs in it."""

import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_CHUNK = 2**16
_STOPPED = 70  # exit code of a child that could not report


class ChildKilled(Exception):
    """The child ended without a report: it needed more memory than its limit."""


class ChildTimeout(Exception):
    """The child was still at work at the end of its time."""


def call_in_child(call: Callable[[], None], timeout_s: float) -> None:
    """Run `call` in a forked process, whose exception is raised here.

    Raises `ChildKilled`, `ChildTimeout`, and `KeyboardInterrupt` once the child is gone.
    """
    reading, writing = os.pipe()
    watched, held = os.pipe()  # the child reads the end of it when this process is gone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: other threads; the child uses none of them
        child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(held)
        _work(call, writing, watched)
    os.close(writing)
    os.close(watched)
    try:
        report = _read_report(reading, time.monotonic() + timeout_s)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(held)
    if not report:
        raise ChildKilled
    if (fault := pickle.loads(report)) is not None:
        raise fault


def limit_memory(memory_bytes: int) -> None:
    """Limit what this process allocates beyond what it has now; only Linux counts that."""
    if sys.platform != "linux":
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit, hard = pages * resource.getpagesize() + memory_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def limit_files(most_bytes: int) -> None:
    """Limit the size of each file that this process writes; beyond it, writing raises `OSError` (EFBIG)."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard), hard)
    )


def _work(call: Callable[[], None], writing: int, watched: int) -> None:
    """Child's side; never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries that run out of memory write there
        threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
        fault: Exception | None = None
        try:
            call()
        except MemoryError:
            os._exit(_STOPPED)
        except Exception as error:  # noqa: BLE001 - raised again by the parent
            fault = error
        with os.fdopen(writing, "wb") as stream:
            stream.write(pickle.dumps(fault))
    finally:
        os._exit(_STOPPED)


def _end_with_parent(watched: int) -> None:
    os.read(watched, 1)
    os._exit(_STOPPED)


def _read_report(reading: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([reading], [], [], left_s)[0]:
            raise ChildTimeout
        part = os.read(reading, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)

"""Python child processes: with this process's import path, in sessions of their own, ended with their parent."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Generic, Protocol, TypeVar

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(*map(int, sys.argv[3:]))"
)
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # one process per core
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # same order of sets in each run
}


def start_python(
    module: str,
    descriptor: int,
    *numbers: int,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> "subprocess.Popen[bytes]":
    """Start Python and call `main(descriptor, parent, *numbers)` of a module of gradebook.

    descriptor: the only open file that the child inherits apart from its log. parent: id of this process, for
    `end_with_parent`. log: receives its output; None: drop the output, and send errors to this process's stderr.
    environment: variables added to this process's.
    """
    # "." comes last: a user's folder such as tasks/ must not hide gradebook's or a library's.
    path = [*dict.fromkeys(str(Path(entry or ".").absolute()) for entry in [*sys.path, "."])]
    words = (module, *map(str, (descriptor, os.getpid(), *numbers)))
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "faulthandler", "-c", _PROGRAM, json.dumps(path), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if log is None else log,
        stderr=log,
        pass_fds=(descriptor,),
        env={**os.environ, **_ENVIRONMENT, **environment},
        start_new_session=True,
    )


def end_with_parent(parent: int) -> bool:
    """Let the kernel kill this process when its parent ends; returns whether the parent is still alive."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    return os.getppid() == parent


_ENDED_WITH_PARENT = (
    f"import ctypes, os, sys; ctypes.CDLL(None).prctl({PARENT_DEATH_SIGNAL}, {int(signal.SIGKILL)}); "
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)


def words_ended_with_parent(words: Sequence[str]) -> list[str]:
    """Command whose process the kernel kills when this process ends; elsewhere than on Linux it outlives a kill."""
    if sys.platform != "linux":
        return [*words]
    return [sys.executable, "-I", "-c", _ENDED_WITH_PARENT, str(os.getpid()), *words]


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Process(Protocol):
    """Process that a pool manages."""

    def is_alive(self) -> bool:
        """Whether it can take a call."""
        ...

    def end(self) -> None: ...


Member = TypeVar("Member", bound=Process)


class ProcessPool(Generic[Member]):
    """Pool of processes: one for each concurrent call, reused by later calls; all end with the pool."""

    def __init__(self, start: Callable[[], Member]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._idle: list[Member] = []
        self._alive: set[Member] = set()
        self._is_closed = False
        # The kernel ends a process with the thread that started it: this thread lives as long as the pool.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="start processes")

    def take(self) -> Member:
        """Take a process for exclusive use until it is given back or dropped."""
        while process := self._idle_process():
            if process.is_alive():
                return process
            self.drop(process)
        process = self._starter.submit(self._start).result()
        with self._lock:
            self._alive.add(process)
        return process

    def give_back(self, process: Member) -> None:
        """Return a process to the pool for the next call."""
        with self._lock:
            if not self._is_closed:
                self._idle.append(process)

    def drop(self, process: Member) -> None:
        """End a process. Raises `RuntimeError` if the pool was closed, which means that the call is not at fault."""
        process.end()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("found the processes closed, expected them open")
            self._alive.discard(process)

    def close(self) -> None:
        """End all processes; a call in progress raises."""
        with self._lock:
            self._is_closed = True
            alive, self._alive, self._idle = list(self._alive), set(), []
        for process in alive:
            process.end()
        self._starter.shutdown()

    def _idle_process(self) -> Member | None:
        with self._lock:
            return self._idle.pop() if self._idle else None


def core_count() -> int:
    """Number of cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Tasks waiting for a judge may be many; computing tasks hold a shard in memory each.
COMPUTING = threading.BoundedSemaphore(core_count())

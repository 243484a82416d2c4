"""Processes of Python beside the run's own: with its import path, in sessions of their own, ended with it."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
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
    "OMP_NUM_THREADS": "1",  # a process a core
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # the order of a set is the same in each run
}


def start_python(
    module: str,
    descriptor: int,
    *numbers: int,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> "subprocess.Popen[bytes]":
    """Start Python, which calls `main(descriptor, parent, *numbers)` of a module of gradebook.

    descriptor: the one open file that it has beside its log. parent: this process, for `end_with_parent`. log: takes
    what it prints; None drops that, but for errors, which go where this process's go. environment: variables that it
    has beside this process's.
    """
    # Last: a folder of the user's, such as tasks/, must not stand in for gradebook's or the library's.
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
    """Let this process be killed when the one that started it ends; returns whether that one is still there."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    return os.getppid() == parent


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Process(Protocol):
    """What a pool holds."""

    def is_alive(self) -> bool:
        """Whether it can be called."""
        ...

    def end(self) -> None:
        """Kill it."""
        ...


Held = TypeVar("Held", bound=Process)


class ProcessPool(Generic[Held]):
    """Processes: one for each call under way, kept for the next; all end with the pool."""

    def __init__(self, start: Callable[[], Held]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._idle: list[Held] = []
        self._alive: set[Held] = set()
        self._is_closed = False
        # The kernel ends a process with the thread that started it: this one lives as long as the pool.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="start processes")

    def held(self) -> tuple[Held, ...]:
        """The processes there are, at work or not."""
        with self._lock:
            return tuple(self._alive)

    def take(self) -> Held:
        """A process that nothing else calls until it is given back or dropped."""
        while process := self._idle_process():
            if process.is_alive():
                return process
            self.drop(process)
        process = self._starter.submit(self._start).result()
        with self._lock:
            self._alive.add(process)
        return process

    def give_back(self, process: Held) -> None:
        """Keep a process for the next call."""
        with self._lock:
            if not self._is_closed:
                self._idle.append(process)

    def drop(self, process: Held) -> None:
        """End a process. Raises `RuntimeError` where the pool was closed: then it is no call's fault that it ended."""
        process.end()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("found the processes closed, expected them open")
            self._alive.discard(process)

    def close(self) -> None:
        """End all processes; a call under way raises."""
        with self._lock:
            self._is_closed = True
            alive, self._alive, self._idle = list(self._alive), set(), []
        for process in alive:
            process.end()
        self._starter.shutdown()

    def _idle_process(self) -> Held | None:
        with self._lock:
            return self._idle.pop() if self._idle else None


def core_count() -> int:
    """The cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Tasks that wait for a judge are many; those that compute hold a shard in memory each.
COMPUTING = threading.BoundedSemaphore(core_count())

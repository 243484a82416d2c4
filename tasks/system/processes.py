"""Child processes: workers that end with their parent, a fork with limits, and a call in a Python process of its own.

Workers have this process's import path and sessions of their own. A forked child is ended at once by Ctrl-C and by
a time limit, whatever code runs in it. The memory of a call in a process of its own is free once it has returned.
"""

import ctypes
import json
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Generic, ParamSpec, Protocol, TypeVar

from gradebook.rubrics.model.errors import UnfinishedError

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
    arguments = (module, *map(str, (descriptor, os.getpid(), *numbers)))
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "faulthandler", "-c", _PROGRAM, json.dumps(path), *arguments],
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


def command_ended_with_parent(words: Sequence[str]) -> list[str]:
    """Command whose process the kernel kills when this process ends; on Linux only."""
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


# Many tasks may wait for a judge; each computing task holds a shard in memory.
COMPUTING = threading.BoundedSemaphore(core_count())


_CHUNK = 2**16
_STOPPED = 70  # exit code of a child that could not send its outcome


class ChildKilled(Exception):
    """The child ended without a report: it needed more memory than its limit."""


class ChildTimeout(Exception):
    """The child did not finish within its time limit."""


def call_in_child(call: Callable[[], None], timeout_s: float) -> None:
    """Run `call` in a forked process, whose exception is raised here.

    Raises `ChildKilled`, `ChildTimeout`, and `KeyboardInterrupt` once the child is gone.
    """
    read_end, write_end = os.pipe()
    watched, parent_end = os.pipe()  # the child's read returns when this process is gone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: other threads; the child uses none of them
        child = os.fork()
    if child == 0:
        os.close(read_end)
        os.close(parent_end)
        _work(call, write_end, watched)
    os.close(write_end)
    os.close(watched)
    try:
        report = _read_report(read_end, time.monotonic() + timeout_s)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read_end)
        os.close(parent_end)
    if not report:
        raise ChildKilled
    if (fault := pickle.loads(report)) is not None:
        raise fault


def limit_memory(memory_bytes: int) -> None:
    """Limit the memory that this process allocates from now on; on Linux only."""
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


def _work(call: Callable[[], None], write_end: int, watched: int) -> None:
    """Run the call in the child; never returns."""
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
        with os.fdopen(write_end, "wb") as stream:
            stream.write(pickle.dumps(fault))
    finally:
        os._exit(_STOPPED)


def _end_with_parent(watched: int) -> None:
    os.read(watched, 1)
    os._exit(_STOPPED)


def _read_report(read_end: int, deadline: float) -> bytes:
    chunks: list[bytes] = []
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([read_end], [], [], left_s)[0]:
            raise ChildTimeout
        chunk = os.read(read_end, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


_CALL_PROGRAM = (  # with the parent's import path: a user's folder such as tasks/ must not hide a library
    f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import serve_call; serve_call()"
)
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def call_in_new_process(
    function: Callable[Parameters, Returned], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Returned:
    """Call a function of a module in a new process, which starts in about a second; returns or raises as it does.

    The process is in a session of its own: Ctrl-C does not end it, and it ends by itself. Raises `UnfinishedError` if
    it is killed.
    """
    request = pickle.dumps((function, args, kwargs))
    command = [sys.executable, "-P", "-c", _CALL_PROGRAM, json.dumps(sys.path)]
    ended = subprocess.run(command, input=request, stdout=subprocess.PIPE, start_new_session=True, check=False)
    if not ended.stdout:
        raise UnfinishedError(f"the process of {function.__name__} ended without an answer, with {ended.returncode}")
    returned, fault = pickle.loads(ended.stdout)
    if fault is not None:
        raise fault
    return returned  # type: ignore[no-any-return]


def call_here(
    function: Callable[Parameters, Returned], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Returned:
    """Call a function in this process."""
    return function(*args, **kwargs)


def serve_call() -> None:
    """Call the function from stdin in the new process, and write its value or error to stdout."""
    report = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes to stderr
    function, args, kwargs = pickle.load(sys.stdin.buffer)
    returned = fault = None
    try:
        returned = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        fault = error
    with report:
        report.write(pickle.dumps((returned, fault)))

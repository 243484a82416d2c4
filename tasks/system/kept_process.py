"""Processes that stay for later commands of the same person.

A process holds a lock on its state file as long as it lives; the file says where it listens. The first command that
needs the process starts it, later ones find it, and it ends when no command has used it for a while.
"""

import atexit
import errno
import fcntl
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.folder_settings import unusable_home

READY = "ready"  # kind of the process of flows.program.ready
IDLE_S = "GRADEBOOK_SERVER_IDLE_S"  # how long a process stays after the last command that used it
DEFAULT_IDLE_S = 900.0
LEAST_IDLE_S = 5.0  # between the moment it answers and the first request of the command that started it
LOCK_TIMEOUT_S = 2.0  # a command that looks whether the lock is held holds it for microseconds
STOP_TIMEOUT_S = 15.0
# What a process gets of the command's environment; keys of judges are none of its business.
INHERITED = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "DO_NOT_TRACK")
INHERITED_PREFIXES = ("PREFECT_", "PYTHON", "LC_")
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_started: "list[subprocess.Popen[str]]" = []  # they outlive this process, so nobody waits for their end


@dataclass(frozen=True, slots=True)
class KeptProcess:
    """A process as its state file describes it. auth: the password that its clients send."""

    address: str
    auth: str
    process_id: int
    started_at: str  # ISO 8601, UTC
    idle_s: float

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(urlsplit(self.address).port or 0)


def find_process(state: Path) -> KeptProcess | None:
    """The process of a state file; None if it has ended."""
    with suppress(OSError), os.fdopen(_open_own(state, os.O_RDONLY), encoding="utf-8") as file:
        for _ in range(20):
            if _is_unlocked(file.fileno()):
                return None
            file.seek(0)
            try:
                return KeptProcess(**json.load(file))
            except (ValueError, TypeError):  # locked, and not yet written
                time.sleep(0.05)
    return None


def find_processes(home: Path, kind: str) -> Iterator[KeptProcess]:
    """All processes of a kind whose state files lie in a folder. Raises `InputError` if it can't be read."""
    for state in _states(home, kind):
        if process := find_process(state):
            yield process


def state_file(home: Path, kind: str, digest: str) -> Path:
    """State file of the process of a kind; digest: of all that the process depends on."""
    return home / f"gradebook-{kind}-{digest}.json"


def log_file(state: Path) -> Path:
    """Where a process writes what goes wrong."""
    return state.with_suffix(".log")


def inherited(but: tuple[str, ...] = ()) -> dict[str, str]:
    """Variables that a process inherits of the environment. but: beginnings of those that it does not inherit."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or (name.startswith(INHERITED_PREFIXES) and not (but and name.startswith(but)))
    }


def idle_time_s() -> float:
    """How long a process stays after the last command that used it. Raises `InputError` for a wrong setting."""
    text = os.environ.get(IDLE_S) or str(DEFAULT_IDLE_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(IDLE_S, repr(text), "a number of seconds, 0 or more")
    return seconds


def start_process(
    state: Path,
    program: Sequence[str],
    *arguments: str,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
) -> "subprocess.Popen[str]":
    """Start a program of Python as a process of its own; its arguments are the state file, the idle time and these.

    stdin: of `subprocess.Popen`.
    """
    with os.fdopen(_open_own(log_file(state), os.O_WRONLY | os.O_CREAT), "w") as log:
        log.truncate()
        process = subprocess.Popen(
            [sys.executable, "-P", *program, str(state), str(idle_time_s()), *arguments],
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C and a closed terminal end the command alone
        )
    _started.append(process)
    return process


@atexit.register
def _leave_running() -> None:
    """Count the processes as ended: at the end of Python, `Popen` would warn of each that is still running."""
    for process in _started:
        process.returncode = process.poll() or 0


def read_answer(process: "subprocess.Popen[str]") -> KeptProcess | None:
    """The process that a new one has become or found; None if it is not needed. Raises `OSError` without an answer."""
    if process.stdout is None:
        raise OSError("has no output")
    with process.stdout as answers:
        line = answers.readline()
    if not line:
        raise OSError("ended without an answer")
    return KeptProcess(**json.loads(line)) if line.strip() else None


def stop_processes(home: Path, kind: str) -> int:
    """End all processes of a kind; returns how many there were."""
    stopped = 0
    for state in _states(home, kind):
        if process := find_process(state):
            _signal(process.process_id, signal.SIGTERM)
            end = time.monotonic() + STOP_TIMEOUT_S
            while find_process(state) and time.monotonic() < end:
                time.sleep(0.05)
            if find_process(state):
                _signal(process.process_id, signal.SIGKILL)
            stopped += 1
    return stopped


def _states(home: Path, kind: str) -> list[Path]:
    try:
        return sorted(home.glob(f"gradebook-{kind}-*.json"))
    except PermissionError as error:
        raise unusable_home(f"{home}, which can't be read ({error.strerror})") from None


def claim_state(state: Path) -> IO[str] | None:
    """In the process: lock its state file for as long as it lives; None if another has it.

    Raises `OSError` if the file is somebody else's.
    """
    file = os.fdopen(_open_own(state, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8")
    end = time.monotonic() + LOCK_TIMEOUT_S
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return file
    file.close()
    return None


def write_state(state: IO[str], address: str, auth: str, idle_s: float) -> str:
    """In the process: describe it in its locked state file; returns the text, which the command reads as its answer."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps(asdict(KeptProcess(address, auth, os.getpid(), now, idle_s)))
    state.truncate(0)
    state.write(text)
    state.flush()
    return text


def other_state(state: Path) -> str:
    """In a process that came second: the description that the first one writes at once."""
    for _ in range(100):
        if text := state.read_text(encoding="utf-8"):
            return text
        time.sleep(0.05)
    raise SystemExit(f"another process holds the lock of {state} and has not said where it is")


def _open_own(path: Path, flags: int) -> int:
    """Open a file in a folder that others may be able to write.

    A state file names whom commands ask, and which process `gradebook server stop` ends; a link or a pipe would be
    another file. Raises `OSError` unless the file is this person's, and writable by nobody else.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode) or found.st_mode & _WRITABLE:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "is of another user, or others can write it; remove it", str(path))
    return descriptor


def _is_unlocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _signal(process_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, number)

"""The program `gradebook`: a command, run by a ready process that is like this one or, without one, here.

It imports as little as it can: with a ready process (see flows.program.ready) this is all that a command imports.
"""

from gradebook.flows.display.ends import end_interrupted, end_unfinished, run_to_end

try:
    import os
    import signal
    import socket
    import sys
    import time
    from collections.abc import Callable, Sequence
    from contextlib import suppress
    from types import FrameType

    from gradebook import LOADED_AT
    from gradebook.flows.program.likeness import Likeness, likeness
    from gradebook.flows.program.protocol import (
        AWAKE,
        ENDED,
        GO,
        LENGTH,
        MOST_DESCRIPTORS,
        STARTED,
        address_of,
        given_descriptors,
    )
    from gradebook.flows.server.port_keeper import is_own
except KeyboardInterrupt:  # before `main`
    end_interrupted()

# Commands that a ready process runs: they are called again and again, prompt for nothing and end by themselves.
SERVED = ("evaluate", "review", "rescore", "checks", "compare", "report", "runs", "why", "cost", "status")
LEAVING = ("evaluate", "review", "rescore", "demo")  # and after which a ready process is left for the next command
AHEAD = ("evaluate", "demo")  # they need Prefect's server unless their request is wrong: its start takes longest
STANDARD = {0, 1, 2}  # stdin, stdout, stderr
UNSERVED = {"--verbose", "--help"}  # Prefect's log is set up when Prefect is imported
ANSWER_S = 2.0  # until a ready process has made the process of the command; it takes milliseconds
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGTSTP")


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    run_to_end(_run)


def _open_closed() -> None:
    """Open a closed stdin, stdout or stderr as an empty file: another file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))


def _run() -> None:
    _open_closed()
    name, is_plain = (sys.argv[1:2] or [""])[0], UNSERVED.isdisjoint(sys.argv)
    like = likeness() if is_plain and name in {*SERVED, *LEAVING} else None
    if like is not None and name in SERVED:
        code = run_in_ready_process(like, sys.argv[1:])
        if code is not None:
            _exit_like(code)
    if is_plain and name in AHEAD and "--dry-run" not in sys.argv:
        from gradebook.flows.server.shared import start_ahead

        start_ahead()
    from gradebook.flows.cli import main as run

    try:
        run()
    except SystemExit as end:
        if like is not None and name in LEAVING and end.code in (0, 1, None):
            from gradebook.flows.program.ready import leave_ready_process

            leave_ready_process(like, SERVED)
        raise


def run_in_ready_process(like: Likeness, arguments: Sequence[str]) -> int | None:
    """Run a command in a fork of the ready process; returns its exit code, below 0 the signal that ended it.

    None if nothing was run, because no ready process is like this one. The fork has this process's open files, gets its
    signals, and is killed when this process is.
    """
    import json

    numbers = given_descriptors()
    if len(numbers) > MOST_DESCRIPTORS or not {*numbers} >= STANDARD or _is_in_background():
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(address_of(like))
            if not is_own(connection) or connection.recv(1) != AWAKE:
                return None
            asked = {"like": like, "arguments": arguments, "began_at": LOADED_AT, "cpu_s": time.process_time()}
            request = json.dumps(asked | {"numbers": numbers}).encode()
            socket.send_fds(connection, [LENGTH.pack(len(request))], numbers)
            connection.sendall(request)
            process = _answer(connection, STARTED)  # of the fork, which waits for the next line
            _forward_signals(process)
            connection.sendall(GO)
        except (OSError, ValueError):  # there is none, or it is gone
            _handle_signals(None)
            return None
        connection.settimeout(None)
        try:
            return _answer(connection, ENDED)
        except (OSError, ValueError):
            end_unfinished("the process of this command was killed; run the same command again to resume")


def _is_in_background() -> bool:
    """Whether a read of the terminal would stop this process; a fork is no job of the shell, so it would read on."""
    with suppress(OSError):  # stdin is not the terminal of this session
        return os.tcgetpgrp(0) != os.getpgrp()
    return False


def _answer(connection: socket.socket, expected: str) -> int:
    """Number of the next answer, a line. Raises `OSError` without one, `ValueError` for another one."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(100)
        if not part:
            raise ConnectionResetError
        line += part
    return int(line.decode().removeprefix(f"{expected} "))


def _forward_signals(process: int) -> None:
    """Forward signals to a process and its children, also the stop of Ctrl-Z."""

    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(process, signal.SIGSTOP if number == signal.SIGTSTP else number)
        if number == signal.SIGTSTP:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # returns once this process goes on; without a shell it does not stop
            signal.signal(number, forward)
            forward(signal.SIGCONT, None)

    _handle_signals(forward)


def _handle_signals(handler: Callable[[int, FrameType | None], None] | None) -> None:
    """Handle signals, but for ignored ones, with a function; None: as usual."""
    for name in FORWARDED:
        number = getattr(signal, name)
        if signal.getsignal(number) != signal.SIG_IGN:
            usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
            signal.signal(number, handler or usual)


def _exit_like(code: int) -> None:
    """Exit with a code, or by the signal that ended the command."""
    if code < 0:
        if -code != signal.SIGKILL:  # which has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)

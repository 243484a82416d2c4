"""Ends of a command: its sentence after Ctrl-C, also before gradebook is imported, and the end of its process."""

import os
import sys
from typing import NoReturn

NOT_FINISHED = 3  # as the exit code of UnfinishedError
_left_threads: list[bool] = []


def end_interrupted() -> NoReturn:
    """Exit after Ctrl-C with a sentence."""
    sys.stderr.write("gradebook: interrupted; run the same command again to resume\n")
    sys.exit(NOT_FINISHED)


def leave_threads() -> None:
    """Let `end_process` wait for no thread: Prefect's try each event for seven seconds on a server that is gone."""
    _left_threads.append(True)


def end_process(end: SystemExit) -> NoReturn:
    """End this process as a command has ended; at once after `leave_threads`."""
    if _left_threads and isinstance(end.code, int | None):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code or 0)
    raise end

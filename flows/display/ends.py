"""End of a command's process, and its sentence after Ctrl-C, also before gradebook is imported."""

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
    """Make `end_process` skip waiting for threads: Prefect's retry each event for seven seconds on a lost server."""
    _left_threads.append(True)


def end_process(end: SystemExit) -> NoReturn:
    """End this process with the exit code of a command; after `leave_threads`, without waiting for threads."""
    if _left_threads and isinstance(end.code, int | None):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code or 0)
    raise end

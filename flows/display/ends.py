"""Ends of a command: its sentences, also before gradebook is imported, and the end of its process."""

import atexit
import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all else up to here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

NOT_FINISHED = 3  # as the exit code of UnfinishedError


def run_to_end(run: "Callable[[], None]") -> None:
    """Run a command, and end this process as it ends; Ctrl-C ends it with a sentence."""
    try:
        try:
            run()
        except KeyboardInterrupt:
            end_interrupted()
    except SystemExit as end:
        _end_process(end)


def _end_process(end: SystemExit) -> "NoReturn":
    """End this process as Python would, but leave what was imported to the kernel: to take it down takes 0.2 s.

    end: raised again where Python has something to print.
    """
    if isinstance(end.code, int | None):
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()  # waits for the threads, as multiprocessing does
        atexit._run_exitfuncs()  # there is no public function for it
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except (OSError, ValueError):
            raise end from None
        os._exit((end.code or 0) & 0xFF)
    raise end


def end_interrupted() -> "NoReturn":
    """Exit after Ctrl-C with a sentence."""
    end_unfinished("interrupted; run the same command again to resume")


def end_unfinished(sentence: str) -> "NoReturn":
    """Exit with a sentence on stderr."""
    sys.stderr.write(f"gradebook: {sentence}\n")
    sys.exit(NOT_FINISHED)

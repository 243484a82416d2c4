"""The program `gradebook`. Ctrl-C ends it with a message, even while modules are imported."""

import os
import sys
import time

from gradebook.flows.display.ends import end_interrupted, end_process

BEGAN_AT_S = time.perf_counter()


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        try:
            _open_closed()
            from gradebook.flows.cli import main as run

            run(BEGAN_AT_S)
        except KeyboardInterrupt:
            end_interrupted()
    except SystemExit as end:
        end_process(end)


def _open_closed() -> None:
    """Open a closed stdin, stdout or stderr as an empty file, else another file would get its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))

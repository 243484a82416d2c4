"""Ends of a command with a sentence, also before gradebook is imported."""

import sys
from typing import NoReturn

NOT_FINISHED = 3  # as the exit code of UnfinishedError


def end_interrupted() -> NoReturn:
    """Exit after Ctrl-C with a sentence."""
    sys.stderr.write("gradebook: interrupted; run the same command again to resume\n")
    sys.exit(NOT_FINISHED)

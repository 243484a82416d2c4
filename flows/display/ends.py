"""Sentences that end a command, also before gradebook is imported."""

import sys

TYPE_CHECKING = False  # typing takes longer to import than all else up to here
if TYPE_CHECKING:
    from typing import NoReturn

NOT_FINISHED = 3  # as the exit code of UnfinishedError


def end_interrupted() -> "NoReturn":
    """Exit after Ctrl-C with a sentence."""
    end_unfinished("interrupted; run the same command again to resume")


def end_unfinished(sentence: str) -> "NoReturn":
    """Exit with a sentence on stderr."""
    sys.stderr.write(f"gradebook: {sentence}\n")
    sys.exit(NOT_FINISHED)

"""A rating server in a process of its own, as a command starts it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gradebook.tasks.lake.address import Lake


@dataclass
class RatingServer:
    """Running server. links: of each rater, by name."""

    process: subprocess.Popen[str]
    links: dict[str, str]


@contextmanager
def rating_server(lake: Lake, *options: str, raters: str = "anna,ben") -> Iterator[RatingServer]:
    """Run `gradebook rate` until the block ends."""
    command = [sys.executable, "-m", "gradebook", "rate", "--lake", f"sqlite:{lake.address}", "--raters", raters]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline().split() for _ in raters.split(",")]
            yield RatingServer(process, dict(lines))
        finally:
            process.terminate()
            process.communicate()

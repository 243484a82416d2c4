"""A rating server in a process of its own, as a command starts it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradebook.tasks.lake.address import Lake
from tests.support.forked import Forked


@dataclass
class RatingServer:
    """Running server. links: of each rater, by name."""

    process: subprocess.Popen[str]
    links: dict[str, str]


@contextmanager
def rating_server(lake: Lake, *options: str, raters: str = "anna,ben") -> Iterator[RatingServer]:
    """Run `gradebook people rate` until the block ends."""
    command = [sys.executable, "-m", "gradebook", "people", "rate"]
    command += ["--lake", f"sqlite:{lake.address}", "--raters", raters]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline().split() for _ in raters.split(",")]
            yield RatingServer(process, dict(lines))
        finally:
            process.terminate()
            process.communicate()


@contextmanager
def forked_server(lake: Lake, folder: Path, *options: str, raters: str) -> Iterator[tuple[Forked, dict[str, str]]]:
    """As `rating_server`, for tests that start many: a process forked from one that has imported all, and the links."""
    server = Forked(["people", "rate", "--lake", f"sqlite:{lake.address}", "--raters", raters, *options], folder)
    try:
        while len(lines := server.out.splitlines(keepends=True)) < len(raters.split(",")) or lines[-1][-1] != "\n":
            assert server.is_running, server.wait()
            time.sleep(0.01)
        yield server, dict(line.split() for line in lines)
    finally:
        server.kill()

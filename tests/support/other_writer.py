"""Another process that writes into a lake's catalog: SQLite's locks do not tell two users in one process apart."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gradebook.tasks.lake.address import Lake

WRITER = """
import sqlite3, sys
catalog = sqlite3.connect(sys.argv[1], isolation_level=None)
catalog.execute(f"begin {sys.argv[2]}")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def written_by_another(lake: Lake, lock: str = "immediate") -> Iterator[None]:
    """The catalog is held while the block runs. lock: exclusive keeps readers away too."""
    command = [sys.executable, "-c", WRITER, lake.address, lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        yield

"""Worker process for checks and schemas over shards, one after the other.

The worker receives a `Computation` and answers with the number of verdicts and the CPU seconds, which include its own
start in the first answer; or with None after an error, which the caller raises by repeating the work.
"""

import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import pyarrow as pa

from gradebook.tasks.scoring.computed import compute_verdicts, read_columns
from gradebook.tasks.system.processes import end_with_parent

Answer = tuple[int, float] | None


class LastShard:
    """Cache of the last shard's columns: criteria over one shard mostly follow one another."""

    def __init__(self, read: Callable[[str, Sequence[str]], pa.Table] = read_columns) -> None:
        self._read_columns = read
        self._shard = ""
        self._rows: pa.Table | None = None

    def read(self, shard: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a shard, as `read_columns`; only columns not yet cached are read."""
        if shard != self._shard:
            self._shard, self._rows = shard, None  # free the old shard before reading the new one
        if self._rows is None:
            self._rows = self._read_columns(shard, columns)
        cached = self._rows.column_names
        if missing := [name for name in columns if name not in cached]:
            more = self._read_columns(shard, missing)
            for field, column in zip(more.schema, more.columns, strict=True):
                self._rows = self._rows.append_column(field, column)
        return self._rows.select(list(columns))


def main(descriptor: int, parent: int) -> None:
    """Answer on a socket until the other end is closed. parent: process with which this one ends."""
    if not end_with_parent(parent):
        return
    pa.set_cpu_count(1)  # one process per core
    spent_s, last = 0.0, LastShard()
    with Connection(descriptor) as connection:
        while True:
            try:
                computation = connection.recv()
            except EOFError:
                return
            try:
                verdict_count = compute_verdicts(computation, last.read)
            except Exception:  # noqa: BLE001 - the caller repeats the work and raises the same
                connection.send(None)
                continue
            pa.default_memory_pool().release_unused()
            earlier_s, spent_s = spent_s, time.process_time()
            connection.send((verdict_count, spent_s - earlier_s))

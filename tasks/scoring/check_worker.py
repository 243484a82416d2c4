"""What runs in a process of its own: checks and schemas over shards, one after the other.

It is sent a `Computation` and answers with how many verdicts it wrote and the CPU seconds that took, its own start
among the first; or with None where it could not, and why shows where the caller does the same.
"""

import time
from multiprocessing.connection import Connection

import pyarrow as pa

from tasks.processes import end_with_parent
from tasks.scoring.computations import compute_verdicts

Answer = tuple[int, float] | None


def main(descriptor: int, parent: int) -> None:
    """Answer on a socket until the other end is closed. parent: the process without which this one ends."""
    if not end_with_parent(parent):
        return
    pa.set_cpu_count(1)  # a process a core
    spent_s = 0.0
    with Connection(descriptor) as connection:
        while True:
            try:
                computation = connection.recv()
            except EOFError:
                return
            try:
                verdict_count = compute_verdicts(computation)
            except Exception:  # noqa: BLE001 - the caller does it again, and raises the same
                connection.send(None)
                continue
            pa.default_memory_pool().release_unused()
            earlier_s, spent_s = spent_s, time.process_time()
            connection.send((verdict_count, spent_s - earlier_s))

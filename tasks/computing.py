"""A turn at the processor: as many shards are computed at once as there are cores, however many tasks wait."""

import os
import threading


def core_count() -> int:
    """The cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Tasks that wait for a judge are many; those that compute hold a shard in memory each.
COMPUTING = threading.BoundedSemaphore(core_count())

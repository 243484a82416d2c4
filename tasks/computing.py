"""A turn at the processor: as many shards are computed at once as there are cores, however many tasks wait."""

import os
import threading

# Tasks that wait for a judge are many; those that compute hold a shard in memory each.
COMPUTING = threading.BoundedSemaphore(os.cpu_count() or 1)

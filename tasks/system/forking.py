"""Forks of this process by its caller, as trainers and `multiprocessing` make them.

A fork copies SQLite's locks as they are. A lock that another thread holds at that moment stays held in the child for
good, and every later transaction of the child waits for it in vain. So a fork waits until nothing is in `unforked`.
"""

import os
import threading

unforked = threading.RLock()  # held by a thread while it uses SQLite

os.register_at_fork(before=unforked.acquire, after_in_parent=unforked.release, after_in_child=unforked.release)

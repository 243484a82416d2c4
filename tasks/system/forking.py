"""Forks of this process by its caller, as trainers and `multiprocessing` make them.

A fork copies SQLite's locks as they are. A lock that another thread holds at that moment stays held in the child for
good, and every later transaction of the child waits for it in vain. So a fork waits until no other thread holds one of
these two. Who needs both takes `lake_turn` first, or two threads wait for each other.
"""

import os
import threading

lake_turn = threading.RLock()  # held by a thread while it is connected to a lake
unforked = threading.RLock()  # held by a thread while it uses SQLite by itself; it connects to no lake meanwhile


def _hold() -> None:
    lake_turn.acquire()
    unforked.acquire()


def _release() -> None:
    unforked.release()
    lake_turn.release()


os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)

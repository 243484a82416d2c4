"""Cheaper imports: garbage collection paused, and rarely used modules deferred."""

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_COUNTING = threading.Lock()
_holders: set[object] = set()


class _Later(ModuleType):
    """Placeholder that imports its module on first attribute access."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def deferred_imports(*names: str) -> Iterator[None]:
    """Defer imports of these modules during the block until they are first used.

    After the block, imports work as usual.
    """
    put_off = {name: _Later(name) for name in names if name not in sys.modules}
    sys.modules.update(put_off)
    try:
        yield
    finally:
        for name, module in put_off.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection while the block imports: of its million objects hardly any is garbage.

    Shared by threads that import concurrently: collection resumes when the last of them is done.
    """
    holder = object()
    with _COUNTING:
        _holders.add(holder)
        gc.disable()
    try:
        yield
    finally:
        with _COUNTING:
            _holders.remove(holder)
            if not _holders:
                gc.enable()

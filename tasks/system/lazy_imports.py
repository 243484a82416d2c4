"""What makes slow imports cheaper: no garbage is collected meanwhile, and what is hardly ever used is put off."""

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
    """A module that is imported when it is first asked for something."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def imported_later(*names: str) -> Iterator[None]:
    """Put the modules off, while the block runs: whoever imports one then, has it imported when it is used.

    After the block an import is as ever.
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
    """Collect no garbage while the block imports: it makes a million objects and hardly any of them is garbage.

    Threads that import at once share it: garbage is collected again when the last of them is done.
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

"""Cheaper imports: garbage collection paused, rarely used modules deferred, others refused."""

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
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
    packages = {name: sys.modules.get(name.rpartition(".")[0]) for name in put_off}
    inner = {name: package for name, package in packages.items() if package is not None}
    for name, package in inner.items():
        setattr(package, name.rpartition(".")[2], put_off[name])  # what `import a.b as c` returns
    try:
        yield
    finally:
        for name, module in put_off.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
                if name in inner:
                    delattr(inner[name], name.rpartition(".")[2])


class _Refusal(MetaPathFinder):
    """Finder that refuses modules as if they were not installed."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> None:
        if fullname in self.names:
            raise ModuleNotFoundError(f"{fullname} is refused: this process does not need it", name=fullname)


_REFUSAL = _Refusal()


def refuse_imports(*names: str) -> None:
    """Refuse later imports of these modules in this process, as if they were not installed."""
    _REFUSAL.names.update(names)
    if _REFUSAL not in sys.meta_path:
        sys.meta_path.insert(0, _REFUSAL)


def refuse_pandas() -> None:
    """Refuse imports of pandas in this process, until `allow_pandas`.

    pyarrow imports it with the first array, DuckDB with the first parameter, to compare values with its types: 0.4 CPU
    seconds and 40 MB.
    """
    refuse_imports("pandas")


def allow_pandas() -> None:
    """Allow imports of pandas again; pyarrow then takes it up when a table is converted."""
    _REFUSAL.names.discard("pandas")


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection while the block imports: of its million objects hardly any is garbage.

    Shared by threads that import concurrently: collection resumes when the last of them is done. It would begin by
    looking at all objects, so the first ones are excluded.
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
                freeze_imports()
                gc.enable()


@cache
def freeze_imports() -> None:
    """Exclude the million objects made by imports from garbage collection; once, as later calls could keep garbage."""
    gc.freeze()

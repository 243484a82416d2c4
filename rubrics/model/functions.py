"""What a package of functions takes from gradebook, and which packages a function may come from."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

STAND_INS = ("dataknobs", "dimensions", "safety_gates")  # made by imports, where a rule has no place here
_MARK = "is_vectorised"

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def vectorised(function: AnyFunction) -> AnyFunction:
    """Mark a function that takes many rows at once: a `pyarrow.Table` in, a sequence with an entry for each row out."""
    setattr(function, _MARK, True)
    return function


def is_vectorised(function: Callable[..., Any]) -> bool:
    """Whether the function is marked as `vectorised`."""
    return getattr(function, _MARK, False) is True


def is_within(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these packages or stands below one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)

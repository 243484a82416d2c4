"""Helpers for packages of scoring functions, and the test of which packages are allowed."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

STAND_INS = (
    "dataknobs",
    "dimensions",
    "safety_gates",
)  # prefixes of functions that importers write for rules that cannot be imported
_MARK = "is_vectorised"

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def vectorised(function: AnyFunction) -> AnyFunction:
    """Mark a function that takes many rows at once: a `pyarrow.Table` in, a sequence with one entry per row out."""
    setattr(function, _MARK, True)
    return function


def is_vectorised(function: Callable[..., Any]) -> bool:
    return getattr(function, _MARK, False) is True


def is_within(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these packages or inside one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)

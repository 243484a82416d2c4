"""Recursion whose end does not depend on how deep the caller stands."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")


def on_a_full_stack(function: Callable[[], Value]) -> Value:
    """What the function returns or raises; where the stack ends first, it runs again on a new thread's whole one.

    Raises `RecursionError` where that does not do either.
    """
    try:
        return function()
    except RecursionError:
        pass
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()

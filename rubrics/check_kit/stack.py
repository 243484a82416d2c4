"""Recursion whose limit does not depend on the depth of the caller."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")


def on_a_full_stack(function: Callable[[], Value]) -> Value:
    """Call the function; if the stack overflows, call it again in a new thread with a full stack.

    Raises `RecursionError` if that overflows too.
    """
    try:
        return function()
    except RecursionError:
        pass
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()

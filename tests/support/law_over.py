"""Laws over a table: one test that names every row which breaks the law."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

_MOST_SHOWN = 400  # characters of a row in the message


def law_over(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with every row, as `pytest.mark.parametrize` would, but as one test.

    Thousands of tests of a millisecond each are collected by every worker, which takes longer than to run them. The
    rows share the test's fixtures: for a law that changes none. Raises `AssertionError` with all rows that fail.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]

    def decorate(law: Callable[..., None]) -> Callable[..., None]:
        @wraps(law)
        def test(**fixtures: Any) -> None:
            assert table, "found no rows, expected at least one"
            broken = []
            for row in table:
                try:
                    law(**row, **fixtures)
                except (Exception, pytest.fail.Exception) as fault:  # noqa: BLE001 - all rows are reported
                    said = ", ".join(f"{name}={value!r}" for name, value in row.items())
                    broken.append(f"{said[:_MOST_SHOWN]}\n    {type(fault).__name__}: {fault}")
            assert not broken, f"{len(broken)} of {len(table)} rows break the law:\n" + "\n".join(broken)

        signature = inspect.signature(law)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        test.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del test.__wrapped__  # type: ignore[attr-defined]  # pytest would read the signature of the law
        return test

    return decorate

"""Files made once for all workers of a test run."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Folder that `make` filled, by the first test that asks for this name. Tests that change it copy it."""
    base = factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # workers have folders below a common one
    return made_in((base.parent if is_worker else base) / "made", name, make)


def made_in(parent: Path, name: str, make: Callable[[Path], None]) -> Path:
    """As `made_once`, below a folder that all workers know."""
    folder = parent / name
    parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_made = folder.with_suffix(".made")
        if not is_made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a failed attempt
            folder.mkdir()
            make(folder)
            is_made.touch()
    return folder

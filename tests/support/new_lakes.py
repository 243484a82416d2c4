"""New lakes of tests: copies of an empty one that gradebook made, for a hundredth of its CPU."""

import json
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake import connections
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.attaching import ID_FILE, make_folders
from tests.support.made_once import made_in

_made_by_gradebook = connections._make_lake


@contextmanager
def copied_lakes() -> Iterator[None]:
    """Copy the lakes that are made in this process, where catalog and tables are local files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connections, "_make_lake", _copied_or_made)
        yield


def _copied_or_made(lake: Lake) -> None:
    """As `_make_lake`, which also explains what keeps a lake from being copied."""
    try:
        is_copied = lake.catalog == "sqlite" and lake.bucket is None and _is_copied(lake)
    except OSError:
        is_copied = False
    if not is_copied:
        _made_by_gradebook(lake)


def _is_copied(lake: Lake) -> bool:
    catalog, lake_id = Path(lake.address), str(uuid.uuid4())
    if catalog.exists():
        return False
    make_folders(lake)
    temporary = catalog.with_name(f".{catalog.name}.{lake_id}")
    shutil.copyfile(_empty_lake().address, temporary)
    with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute("begin")
        connection.execute("update ducklake_schema set schema_uuid = ?", [lake_id])
        connection.execute("update ducklake_metadata set value = ? where key = 'data_path'", [f"{lake.data_path}/"])
        connection.execute("update ducklake_snapshot set snapshot_time = ?", [f"{datetime.now(UTC):%F %T.%f}+00"])
        connection.execute("commit")
    Path(lake.data_path, ID_FILE).write_text(json.dumps({"lake_id": lake_id, "unknown_files": []}), encoding="utf-8")
    os.link(temporary, catalog)
    temporary.unlink()
    connections._UP_TO_DATE.add(connections._schema_state(lake))
    return True


def write_copy(folder: Path, made: Callable[[Path], Any]) -> None:
    """Copy to a folder what a function of a test module makes there, made once in a process."""
    shutil.copytree(_filled(made), folder, dirs_exist_ok=True)


@cache
def _filled(made: Callable[[Path], Any]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="made-", dir=os.environ["PREFECT_HOME"]))  # removed at the end of the tests
    made(folder)
    return folder


@cache
def _empty_lake() -> Lake:
    parent = Path(os.environ["PREFECT_HOME"], "made")  # removed at the end of the tests
    return _lake_in(made_in(parent, "empty", _make_empty))


def _make_empty(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connections, "_make_lake", _made_by_gradebook)
        connections.prepare_lake(_lake_in(folder))


def _lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/catalog.sqlite")

"""Attaching of a lake's catalog to a connection, and errors about lakes of an earlier gradebook."""

import errno
import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.errors import (
    BACK_SOON_S,
    COMMIT_DEADLINE_S,
    is_conflict,
    locked_fault,
    opening_fault,
    server_fault,
)
from gradebook.tasks.lake.identity import no_lake
from gradebook.tasks.lake.schema import CATALOG, missing_parts
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.system.files import is_full

# Rows of small tables stay in the catalog: a run would otherwise write a dozen tiny files.
INLINED_ROW_LIMIT = 200
PRIVATE = 0o700  # mode of a new lake
MOST_SHOWN = 5  # missing tables and columns listed in a message
_MADE_WITH = f"select value from {CATALOG}.ducklake_metadata where key = 'data_path'"


def make_folders(lake: "Lake") -> None:
    """Create the lake's missing local folders. Raises `LakeError` if that fails.

    A new lake is its owner's alone: it has prompts and outputs. Folders in an existing one are as open as that one.
    """
    mode = stat.S_IMODE(lake.root.stat().st_mode) if lake.root.exists() else PRIVATE
    for folder in folders_of(lake):
        try:
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
        except OSError as error:
            raise _unmakeable(folder, error) from error


def refuse_unmakeable(lake: "Lake") -> None:
    """Raise `LakeError` where `make_folders` would; none is made."""
    for folder in folders_of(lake):
        try:
            parent = next(each for each in (folder, *folder.parents) if each.exists())
            if parent.is_dir() and (parent == folder or os.access(parent, os.W_OK | os.X_OK)):
                continue
            kind = errno.EACCES if parent.is_dir() else errno.EEXIST if parent == folder else errno.ENOTDIR
            raise OSError(kind, os.strerror(kind))
        except OSError as error:
            raise _unmakeable(folder, error) from error


def folders_of(lake: "Lake") -> list[Path]:
    """The lake's local folders: root, journals, tables, catalog; some lie in others."""
    folders = [lake.root, lake.journal_folder, *([] if lake.bucket else [Path(lake.data_path)])]
    return [*folders, Path(lake.address).parent] if lake.catalog == "sqlite" else folders


def _unmakeable(folder: Path, error: OSError) -> LakeError:
    return LakeError(f"{folder}: can't make the lake's folder: {error.strerror}")


def attach(
    connection: duckdb.DuckDBPyConnection, lake: "Lake", *, read_only: bool, at: int | None, is_new: bool = False
) -> None:
    """Attach the lake and read its tables; wait while another process writes, or the server restarts.

    is_new: make a lake where there is none. Raises `LakeError` if the lake can't be opened, `LakeUnavailable` if it may
    be later.
    """
    options = [f"data_path '{quoted(lake.data_path)}/'", "override_data_path true"]
    options.append("read_only" if read_only else f"data_inlining_row_limit {INLINED_ROW_LIMIT}")
    options.append(f"create_if_not_exists {str(is_new).lower()}")
    if at is not None:
        options.append(f"snapshot_version {at:d}")
    statement_of_lake = f"attach 'ducklake:{lake.catalog}:{quoted(lake.address)}' as lake ({', '.join(options)})"
    # 0: DuckLake's own retry would keep the values that our transaction read; ours reads them again.
    connection.execute("set ducklake_max_retry_count = 0")
    try:
        # An attach whose reply is lost leaves a lake without tables attached.
        read_catalog(connection, lake, f"detach database if exists lake; {statement_of_lake}")
        use_lake(connection, lake)
    except duckdb.Error as error:
        if not is_new and "creating a new DuckLake is explicitly disabled" in str(error):
            raise no_lake(lake) from None
        if lake.catalog == "sqlite" and is_full(error):
            raise
        raise LakeError(opening_fault(lake, error, at)) from None  # DuckDB's text contains the password


def use_lake(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> None:
    """Make the attached lake the default database. Raises as `read_catalog` does."""
    read_catalog(connection, lake, "use lake")


def pin(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> None:
    """Attach the lake again, at the version that is the latest now. Raises as `attach` does."""
    version = last_version(connection, lake)
    connection.execute("use memory")
    attach(connection, lake, read_only=True, at=version)


def last_version(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> int:
    """Latest version. Raises as `read_catalog` does."""
    ((version,),) = read_catalog(connection, lake, "select id from ducklake_current_snapshot('lake')")
    return int(version)


def read_catalog(connection: duckdb.DuckDBPyConnection, lake: "Lake", statement: str) -> list[tuple[Any, ...]]:
    """Rows of a statement that reads the catalog; waits while another process writes, or the server restarts.

    Raises `LakeUnavailable` if that takes too long, `duckdb.Error` for anything else.
    """
    began_s = time.monotonic()
    while True:
        try:
            return connection.execute(statement).fetchall()
        except duckdb.Error as error:
            fault = server_fault(lake, error) or (locked_fault(lake) if is_conflict(error) else None)
            if fault is None:
                raise
            longest_s = COMMIT_DEADLINE_S if is_conflict(error) else BACK_SOON_S
            if time.monotonic() - began_s > longest_s:
                raise fault from None
        time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - jitter, no secret


def refuse_other_place(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> None:
    """Raise `LakeError` if `--data` is missing and the catalog places the files in object storage.

    New rows would otherwise go to a local folder, and no reader would find all of them. With `--data`, the files may
    have been moved.
    """
    if lake.has_data:
        return
    rows = read_catalog(connection, lake, _MADE_WITH)
    if rows and (place := str(rows[0][0])).startswith("s3://"):
        address = place.rstrip("/").removesuffix("/data")
        raise LakeError("--data", "none", f"{address}, where this lake's files are, or where they were moved to")


@contextmanager
def explain_missing_parts(connection: duckdb.DuckDBPyConnection, lake: "Lake", at: int | None) -> Iterator[None]:
    """Explain an error of the block by the tables and columns that an earlier gradebook did not have.

    at: the version read; None: the latest, which can be upgraded.
    """
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        missing = missing_parts(connection, at)
        if not missing:
            raise
        shown = [*missing[:MOST_SHOWN], *([f"{len(missing) - MOST_SHOWN} more"] if len(missing) > MOST_SHOWN else [])]
        if at is None:
            raise LakeError(
                f"{lake.name}: found a lake of an earlier gradebook, without {', '.join(shown)}; expected one that is "
                "up to date: `gradebook doctor --mend` brings it there"
            ) from error
        raise LakeError(
            f"--at: found version {at}, made before the lake had {', '.join(shown)}; expected a later one; "
            f"`gradebook sql --at {at}` reads what is there"
        ) from error


def load_extensions(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Load DuckDB extensions from the files of their wheels. Raises `LakeError` for one that can't be loaded."""
    for name in names:
        file = _extension_file(name)
        if file is None:
            package = f"duckdb-extension-{name.replace('_', '-')}"
            remedy = "pip install '.[s3]' in gradebook's clone" if name == "httpfs" else package
            raise LakeError(f"DuckDB's extension {name} can't be loaded", "no package of it", f"it installed: {remedy}")
        try:
            connection.execute(f"load '{quoted(str(file))}'")
        except (duckdb.Error, OSError) as error:
            raise LakeError(f"DuckDB's extension {name} can't be loaded: {error}") from error


def _extension_file(name: str) -> Path | None:
    """File of an extension in its wheel; None if the wheel is not installed."""
    found = find_spec(f"duckdb_extension_{name}")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"

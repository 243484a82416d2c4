"""Attaching of a lake's catalog to a connection: its identity, and errors about lakes of an earlier gradebook.

DuckLake gives each catalog's schema `main` a random UUID, which a backup of the catalog keeps. The file `lake-id.json`
in the data folder holds the same id: it says which catalog the files belong to. Both are compared before a process
writes or deletes anything.
"""

import errno
import json
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
from pyarrow.fs import FileSystem

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.data_files import (
    address_of,
    file_system,
    is_lake_file,
    known_paths,
    named_files,
    stored_files,
    stored_path,
)
from gradebook.tasks.lake.errors import (
    BACK_SOON_S,
    COMMIT_DEADLINE_S,
    NoLakeThere,
    is_conflict,
    locked_fault,
    opening_fault,
    server_fault,
)
from gradebook.tasks.lake.object_store import translate_storage_errors
from gradebook.tasks.lake.schema import CATALOG, missing_parts
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.system.files import is_full

# Rows of small tables stay in the catalog: a run would otherwise write a dozen tiny files.
INLINED_ROW_LIMIT = 200
_EXTRAS = {"httpfs": "s3", "postgres_scanner": "postgres"}  # extras of the package that bring an extension
_SCANNERS = {"sqlite": "sqlite_scanner", "postgres": "postgres_scanner"}  # extensions that read a catalog
PRIVATE = 0o700  # mode of a new lake
MOST_SHOWN = 5  # missing tables and columns listed in a message
_MADE_WITH = f"select value from {CATALOG}.ducklake_metadata where key = 'data_path'"


def make_folders(lake: "Lake") -> None:
    """Create the lake's missing local folders. Raises `LakeError` if that fails.

    A new lake is private to its owner: it has prompts and outputs. Folders in an existing lake get the lake's mode.
    """
    mode = stat.S_IMODE(lake.root.stat().st_mode) if lake.root.exists() else PRIVATE
    for folder in folders_of(lake):
        try:
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
        except OSError as error:
            raise _unmakeable(folder, error) from error


def refuse_unmakeable(lake: "Lake") -> None:
    """Raise `LakeError` where `make_folders` would, without making a folder."""
    for folder in folders_of(lake):
        try:
            parent = next(path for path in (folder, *folder.parents) if path.exists())
            if parent.is_dir() and (parent == folder or os.access(parent, os.W_OK | os.X_OK)):
                continue
            kind = errno.EACCES if parent.is_dir() else errno.EEXIST if parent == folder else errno.ENOTDIR
            raise OSError(kind, os.strerror(kind))
        except OSError as error:
            raise _unmakeable(folder, error) from error


def folders_of(lake: "Lake") -> list[Path]:
    """The lake's local folders: root, journals, tables, catalog; one may contain another."""
    folders = [lake.root, lake.journal_folder, *([] if lake.bucket else [Path(lake.data_path)])]
    return [*folders, Path(lake.address).parent] if lake.catalog == "sqlite" else folders


def _unmakeable(folder: Path, error: OSError) -> LakeError:
    return LakeError(f"{folder}: can't make the lake's folder: {error.strerror}")


def attach(
    connection: duckdb.DuckDBPyConnection, lake: "Lake", *, read_only: bool, at: int | None, is_new: bool = False
) -> None:
    """Attach the lake and read its tables; wait while another process writes, or the server restarts.

    is_new: make the lake if there is none. Raises `LakeError` if the lake can't be opened, `LakeUnavailable` if it may
    be later.
    """
    options = _location_options(lake)
    options.append("read_only" if read_only else f"data_inlining_row_limit {INLINED_ROW_LIMIT}")
    options.append(f"create_if_not_exists {str(is_new).lower()}")
    if at is not None:
        options.append(f"snapshot_version {at:d}")
    statement_of_lake = _attach_statement(lake, options)
    # 0: a retry by DuckLake would reuse the values that our transaction read; our retry reads them again.
    connection.execute("set ducklake_max_retry_count = 0")
    try:
        # If the reply to an attach is lost, a lake without tables stays attached.
        read_catalog(connection, lake, f"detach database if exists lake; {statement_of_lake}")
        use_lake(connection, lake)
    except duckdb.Error as error:
        if not is_new and "creating a new DuckLake is explicitly disabled" in str(error):
            raise no_lake(lake) from None
        if lake.catalog == "sqlite" and is_full(error):
            raise
        raise LakeError(opening_fault(lake, error, at)) from None  # DuckDB's text contains the password


def _location_options(lake: "Lake") -> list[str]:
    return [f"data_path '{quoted(lake.data_path)}/'", "override_data_path true"]


def _attach_statement(lake: "Lake", options: list[str]) -> str:
    return f"attach 'ducklake:{lake.catalog}:{quoted(lake.address)}' as lake ({', '.join(options)})"


def attach_lines(lake: "Lake") -> str:
    """Statements that open a lake for reading in plain DuckDB of the same version, offline.

    Extensions come from the wheels installed here. Raises `LakeError` if one is missing.
    """
    loads = [f"load '{quoted(str(_needed_extension(name)))}';" for name in extensions_of(lake)]
    loads += ["-- create a secret of the type s3 here, with a key that may read the files"] if lake.bucket else []
    options = [*_location_options(lake), "read_only"]
    options += [] if lake.at is None else [f"snapshot_version {lake.at:d}"]
    return "\n".join([*loads, f"{_attach_statement(lake, options)};", "use lake;"])


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
    if rows and (data_path := str(rows[0][0])).startswith("s3://"):
        address = data_path.rstrip("/").removesuffix("/data")
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
        listed = [*missing[:MOST_SHOWN], *([f"{len(missing) - MOST_SHOWN} more"] if len(missing) > MOST_SHOWN else [])]
        if at is None:
            raise LakeError(
                f"{lake.name}: found a lake of an earlier gradebook, without {', '.join(listed)}; expected one that is "
                "up to date: `gradebook doctor --mend` brings it there"
            ) from error
        raise LakeError(
            f"--at: found version {at}, made before the lake had {', '.join(listed)}; expected a later one; "
            f"`gradebook sql --at {at}` reads what is there"
        ) from error


def extensions_of(lake: "Lake") -> tuple[str, ...]:
    """DuckDB extensions that a lake needs."""
    return ("ducklake", _SCANNERS[lake.catalog], *(("httpfs",) if lake.bucket else ()))


def load_extensions(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Load DuckDB extensions from the files of their wheels. Raises `LakeError` for one that can't be loaded."""
    for name in names:
        file = _needed_extension(name)
        try:
            connection.execute(f"load '{quoted(str(file))}'")
        except (duckdb.Error, OSError) as error:
            raise LakeError(f"DuckDB's extension {name} can't be loaded: {error}") from error


def _needed_extension(name: str) -> Path:
    """File of an extension in its wheel. Raises `LakeError` if the wheel is not installed."""
    file = _extension_file(name)
    if file is None:
        package = f"duckdb-extension-{name.replace('_', '-')}"
        extra = _EXTRAS.get(name)
        remedy = package if extra is None else f"pip install '.[{extra}]' in gradebook's clone"
        raise LakeError(f"DuckDB's extension {name} can't be loaded", "no package of it", f"it installed: {remedy}")
    return file


def _extension_file(name: str) -> Path | None:
    """File of an extension in its wheel; None if the wheel is not installed."""
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"


ID_FILE = "lake-id.json"
MOST_BYTES = 2**26  # size of the id file: it lists the unknown files of an adopted folder
_CATALOG_ID = f"select schema_uuid::varchar from {CATALOG}.ducklake_schema where schema_name = 'main' limit 1"


class LostCatalog(LakeError):
    """No catalog, or an empty one, although the data folder has files of a lake."""


def no_lake(lake: Lake) -> LakeError:
    """Error for a lake without a catalog: `LostCatalog` if its data folder has files of a lake."""
    if not _has_files(lake):
        return NoLakeThere(lake.name)
    return LostCatalog(
        lake.name,
        f"no lake in the catalog, but files of one in {lake.data_path}",
        "the catalog of these files",
        "restore the catalog from a backup, or begin a lake in another folder with --lake or --data",
    )


def check_identity(connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """Raise `LakeError` if the data folder belongs to another catalog.

    A folder without an id, of a new lake or one of gradebook 0.1.0, gets the catalog's id. Files there that are unknown
    to the catalog may belong to another lake: they are listed in the file, and nothing ever deletes them.
    """
    ((catalog_id,),) = connection.execute(_CATALOG_ID).fetchall()
    with translate_storage_errors(lake.bucket):
        identity = _read_identity(lake)
        if identity is None:
            identity = _adopt(connection, lake, catalog_id)
    if identity.get("lake_id") != catalog_id:
        raise LakeError(
            lake.name,
            f"{lake.data_path}, whose files belong to another catalog",
            "the data folder of this catalog",
            f"{ID_FILE} there names the lake; name another folder with --lake or --data",
        )


def foreign_paths(lake: Lake) -> set[str]:
    """Files that were in the data folder, unknown to the catalog, when the folder got its id."""
    identity = _read_identity(lake) or {}
    return {stored_path(lake, path) for path in identity.get("unknown_files", [])}


def _adopt(connection: duckdb.DuckDBPyConnection, lake: Lake, catalog_id: str) -> dict[str, Any]:
    """Give a data folder without an id the catalog's id; returns the content of the id file."""
    named_paths, catalog_paths = {file.path for file in named_files(connection, lake)}, known_paths(connection, lake)
    stored_paths = {file.path for file in stored_files(lake, file_system(lake)) if is_lake_file(lake, file.path)}
    if (named_paths and not named_paths & stored_paths) or (stored_paths and not named_paths):
        raise LakeError(
            lake.name,
            f"none of the catalog's {len(named_paths):,} files among the {len(stored_paths):,} in {lake.data_path}",
            "the data folder of this catalog",
            "name it with --data, or restore a backup of the catalog or of the folder",
        )
    unknown = sorted(path.removeprefix(stored_path(lake, "")) for path in stored_paths - catalog_paths)
    _write_identity(lake, json.dumps({"lake_id": catalog_id, "unknown_files": unknown}))
    return _read_identity(lake) or {}


def _read_identity(lake: Lake) -> dict[str, Any] | None:
    """Content of the file; None if there is none. Raises `LakeError` if it can't be read."""
    system, path = file_system(lake), stored_path(lake, ID_FILE)
    try:
        with system.open_input_file(path) as file:
            identity = json.loads(file.read(MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        identity = None
    if not isinstance(identity, dict):
        raise LakeError(address_of(lake, path), "a text that is no lake's id", "the file as gradebook wrote it")
    return identity


def _write_identity(lake: Lake, text: str) -> None:
    """Write the file unless another process has just done so."""
    if lake.bucket is not None:
        _put(file_system(lake), stored_path(lake, ID_FILE), text)
        return
    path = Path(lake.data_path) / ID_FILE
    try:
        _link(path, text)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise LakeError(f"{path}: can't write it: {error.strerror}") from error


def _link(path: Path, text: str) -> None:
    """Write a file in one step, and only if there is none."""
    temporary = path.with_name(f".{ID_FILE}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    try:
        os.link(temporary, path)  # unlike a rename, it fails if the file is there
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        temporary.replace(path)
    temporary.unlink(missing_ok=True)


def _put(system: FileSystem, path: str, text: str) -> None:
    with system.open_output_stream(path) as stream:
        stream.write(text.encode())


def _has_files(lake: Lake) -> bool:
    if lake.bucket is None and not Path(lake.data_path).exists():
        return False
    with translate_storage_errors(lake.bucket):
        system = file_system(lake)
        id_path = stored_path(lake, ID_FILE)
        return any(file.path == id_path or is_lake_file(lake, file.path) for file in stored_files(lake, system))

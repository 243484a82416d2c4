"""Identity of a lake: which catalog the files of a data folder belong to.

DuckLake gives each catalog's schema `main` a random UUID, which a backup of the catalog keeps. The file `lake-id.json`
in the data folder holds the same id. Both are compared before a process writes or deletes anything.
"""

import errno
import json
import os
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
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.object_store import translate_storage_errors
from gradebook.tasks.lake.schema import CATALOG

ID_FILE = "lake-id.json"
MOST_BYTES = 2**26  # of the file: one path per unknown file of an adopted folder
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

    A folder without an id, of a new lake or one of gradebook 0.1.0, gets the catalog's. Files there that the catalog
    does not name may be those of another lake: they are noted in the file, and nothing ever deletes them.
    """
    ((own_id,),) = connection.execute(_CATALOG_ID).fetchall()
    with translate_storage_errors(lake.bucket):
        noted = _read(lake)
        if noted is None:
            noted = _adopt(connection, lake, own_id)
    if noted.get("lake_id") != own_id:
        raise LakeError(
            lake.name,
            f"{lake.data_path}, whose files belong to another catalog",
            "the data folder of this catalog",
            f"{ID_FILE} there names the lake; name another folder with --lake or --data",
        )


def foreign_paths(lake: Lake) -> set[str]:
    """Files that were in the data folder, unknown to the catalog, when the folder got its id."""
    noted = _read(lake) or {}
    return {stored_path(lake, path) for path in noted.get("unknown_files", [])}


def _adopt(connection: duckdb.DuckDBPyConnection, lake: Lake, own_id: str) -> dict[str, Any]:
    """Write the catalog's id into a data folder that has none. Returns what the file holds then."""
    named, known = {file.path for file in named_files(connection, lake)}, known_paths(connection, lake)
    there = {file.path for file in stored_files(lake, file_system(lake)) if is_lake_file(lake, file.path)}
    if (named and not named & there) or (there and not named):
        raise LakeError(
            lake.name,
            f"none of the catalog's {len(named):,} files among the {len(there):,} in {lake.data_path}",
            "the data folder of this catalog",
            "name it with --data, or restore a backup of the catalog or of the folder",
        )
    unknown = sorted(path.removeprefix(stored_path(lake, "")) for path in there - known)
    _write(lake, json.dumps({"lake_id": own_id, "unknown_files": unknown}))
    return _read(lake) or {}


def _read(lake: Lake) -> dict[str, Any] | None:
    """Content of the file; None if there is none. Raises `LakeError` if it can't be read."""
    system, path = file_system(lake), stored_path(lake, ID_FILE)
    try:
        with system.open_input_file(path) as file:
            noted = json.loads(file.read(MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        noted = None
    if not isinstance(noted, dict):
        raise LakeError(address_of(lake, path), "a text that is no lake's id", "the file as gradebook wrote it")
    return noted


def _write(lake: Lake, text: str) -> None:
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

"""Digests of a lake's Parquet files, in the log entry of the version that added them.

Neither DuckDB nor Arrow notices most changed bits of a Parquet file: they read another value, or fewer rows. A digest
finds damage, not forgery: whoever changes a file may change the catalog too. Object storage has checksums of its own.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.data_files import stored_path
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import read_sqlite

DIGESTS = "files"  # their key in a commit's extra info
DIGEST_BYTES = 8
MOST_BYTES = 32 * 2**20  # of files that a command compares before it reads a lake: at most 40 ms
CHANGED = "its content is not what was published"
_DIGESTED = (
    "select commit_extra_info from {catalog}ducklake_snapshot_changes where commit_extra_info like '%\"files\"%' "
    "order by snapshot_id desc"
)
# Paths below the data folder. A table changes its folder never, but has a row for each of its changes.
_NAMED = (
    "select distinct schemas.path || tables.path || files.path as path from {catalog}ducklake_data_file as files "
    "inner join {catalog}ducklake_table as tables on files.table_id = tables.table_id "
    "inner join {catalog}ducklake_schema as schemas on tables.schema_id = schemas.schema_id"
)
_KNOWN = f"select path from ({_NAMED.format(catalog=f'{CATALOG}.')}) where list_contains(?, path)"

Digests = dict[str, set[str]]


def digests_of(connection: duckdb.DuckDBPyConnection, lake: Lake, paths: Iterable[str]) -> dict[str, str]:
    """Digests of the Parquet files among paths, by the path below the data folder, except those that are gone.

    A file that a version names already has its digest: what it holds now may be damaged.
    """
    folder = f"{stored_path(lake)}/"
    new = [path.removeprefix(folder) for path in paths if path.endswith(".parquet")]
    known = {path for (path,) in connection.execute(_KNOWN, [new]).fetchall()} if new else set()
    found = {path: digest_file(folder + path) for path in new if path not in known}
    return {path: digest for path, digest in found.items() if digest is not None}


def digest_file(path: str | Path) -> str | None:
    """Digest of a file's content, 16 hex digits; None if the file is gone."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of text
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()
    except FileNotFoundError:
        return None


def stored_digests(connection: duckdb.DuckDBPyConnection) -> Digests:
    """Digests by path below the data folder.

    A file has two if another transaction saw it before its own one committed, when it was perhaps not yet whole.
    """
    return _parse(extra for (extra,) in connection.execute(_DIGESTED.format(catalog=f"{CATALOG}.")).fetchall())


def changed_newest_files(lake: Lake) -> list[str]:
    """Newest files whose content is not what was published, of `MOST_BYTES` in all; `gradebook doctor` reads all.

    Empty for a catalog in PostgreSQL, where looking costs a connection, and for object storage.
    """
    if lake.catalog != "sqlite" or lake.bucket is not None:
        return []
    rows = read_sqlite(lake.address, _DIGESTED.format(catalog=""))
    named = {path for (path,) in read_sqlite(lake.address, _NAMED.format(catalog=""))}
    return list(_changed(lake, _parse(extra for (extra,) in rows), named))


def _changed(lake: Lake, digests: Digests, named: set[str]) -> Iterator[str]:
    left = MOST_BYTES
    for path, expected in digests.items():
        file = Path(stored_path(lake, path))
        is_below = posixpath.normpath(path) == path and not path.startswith(("/", ".."))
        if not is_below or path not in named or not file.is_file():  # merged since, or not of gradebook's making
            continue
        left -= file.stat().st_size
        if left < 0:
            return
        if digest_file(file) not in expected:
            yield str(file)


def _parse(extras: Iterable[str]) -> Digests:
    """Digests of commits' extra infos, in order. Ignores what gradebook did not write."""
    digests: Digests = {}
    for extra in extras:
        try:
            files = json.loads(extra)[DIGESTS]
            for path, digest in files.items():
                digests.setdefault(path, set()).add(digest)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
    return digests

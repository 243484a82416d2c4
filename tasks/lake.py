"""The lake: a DuckLake of a SQL catalog and Parquet files, opened to read or to commit.

A commit that meets another writer fails whole, so the whole transaction is run again.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from gradebook.rubrics.errors import LakeError
from gradebook.tasks.kept_lakes import Attached
from gradebook.tasks.lake_addresses import connection_string
from gradebook.tasks.lake_attaching import make_folders, refused_if_missing
from gradebook.tasks.lake_commits import Body, Transaction
from gradebook.tasks.lake_connections import EXTENSIONS, attached_lake
from gradebook.tasks.lake_errors import NoLakeThere, losses_told
from gradebook.tasks.lake_tables import bring_up_to_date, is_up_to_date
from gradebook.tasks.object_store import BucketPlace, faults_told, probe_store, read_place

PARTITION = re.compile(r"[^=]+=[^=]*")  # how a partitioned table's folders are named
DEFAULT_LAKE = "sqlite:lake/catalog.sqlite"
# Two threads of one process that use one SQLite catalog at once wait for each other for ever (DuckDB 1.5.5): a thread
# at a time. Processes do not: they meet as conflicts.
_TURN = threading.RLock()


@dataclass(frozen=True, slots=True)
class Lake:
    """Where a lake is. root: the local folder of journals, the runs' working folders and, with no bucket, data files.

    bucket: the object storage of the data files. has_data: whether a person said where they are.
    at: the version that is read, and nothing written; None: the last one.
    """

    catalog: str  # sqlite | postgres
    address: str  # the SQLite file, or PostgreSQL's connection string
    root: Path
    at: int | None = None
    bucket: BucketPlace | None = None
    has_data: bool = False

    @property
    def data_path(self) -> str:
        """The folder of the tables' Parquet files, or its address in object storage; no slash at its end."""
        return str(self.root / "data") if self.bucket is None else f"{self.bucket.uri}/data"

    @property
    def journal_folder(self) -> Path:
        """The folder of replies that are not in the ledger yet."""
        return self.root / "journal"

    @property
    def name(self) -> str:
        """What messages call it: a connection string may hold a password."""
        name = self.address if self.catalog == "sqlite" else "the PostgreSQL catalog"
        return name if self.at is None else f"{name} at version {self.at}"

    @property
    def is_there(self) -> bool:
        """Whether the catalog's file still is; a server's is not asked."""
        return self.catalog != "sqlite" or os.path.exists(self.address)  # noqa: PTH110 - Path raises on too long a name

    @property
    def exists(self) -> bool:
        """Whether somebody made this lake already. Raises as `connect` does where its catalog can't be opened."""
        if not self.is_there:
            return False
        try:
            with connect(self, read_only=True):
                return True
        except NoLakeThere:
            return False


def find_lake(uri: str, data: str | None = None) -> Lake:
    """Read a lake's URI, `sqlite:FILE` or `postgres:CONNECTION`. Raises `LakeError` for any other, or a password.

    data: the folder of its files, or s3://BUCKET/PREFIX; journals and working folders then stay in GRADEBOOK_WORK, or
    beside the SQLite file: they are locked, and added to line by line, which object storage does not do.
    """
    catalog, _, address = uri.partition(":")
    if catalog not in EXTENSIONS or not address:
        found = uri if "@" not in uri and "password" not in uri else f"{catalog}:..."
        raise LakeError(f"--lake: found {found!r}, expected sqlite:FILE or postgres:CONNECTION")
    bucket = read_place(data) if data is not None and "://" in data else None
    if catalog == "sqlite":
        path = Path(address).absolute()
        work = (os.environ.get("GRADEBOOK_WORK") if bucket else data) or path.parent
        return Lake(catalog, str(path), _root(Path(work)), bucket=bucket, has_data=bool(data))
    if data is None:
        raise LakeError("--data: found none, expected the folder of the Parquet files of a PostgreSQL lake")
    work = os.environ.get("GRADEBOOK_WORK", "") if bucket else data
    if not work:
        raise LakeError(
            "GRADEBOOK_WORK: found none, expected the local folder of journals and working files: a lake with its "
            "catalog in PostgreSQL and its files in object storage has no other"
        )
    return Lake(catalog, connection_string(address), _root(Path(work)), bucket=bucket, has_data=True)


def _root(folder: Path) -> Path:
    """The lake's folder. Raises `LakeError` for one that DuckDB would take for a value of a column."""
    if partition := next((part for part in folder.absolute().parts if PARTITION.fullmatch(part)), None):
        raise LakeError(
            f"{folder}: found a folder named {partition!r} on the way, expected none of the form NAME=VALUE: files "
            "below it would be read as if their column NAME held that value"
        )
    return folder.absolute()


@contextmanager
def connect(
    lake: Lake,
    *,
    read_only: bool = False,
    at: int | None = None,
    is_pinned: bool = False,
    is_unshared: bool = False,
    other_bytes: int = 0,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the lake as its default database; `at`: as it was at that version, not at `lake.at`.

    is_pinned: all that the block reads is of the version that is the last one now, whatever others commit meanwhile. Of
    a dozen queries or more each takes half the time: DuckLake looks for no newer version.
    is_unshared: the block changes settings or the database `memory`, which another one would meet.
    other_bytes: what the block reads beside the lake: queries of a small lake and little else run on one thread.
    Raises `LakeError` where there is no lake, it can't be opened or written, or the version lacks what the block reads,
    and `LakeUnavailable` where its server is gone, or others hold it for minutes.
    """
    at = lake.at if at is None else at
    if read_only and not lake.is_there:
        raise NoLakeThere(lake.name)
    if not read_only:
        make_folders(lake)
    with _TURN, losses_told(lake, read_only=read_only), faults_told(lake.bucket):
        attached = Attached(lake, read_only, at)
        with (
            attached_lake(attached, other_bytes, is_pinned=is_pinned, is_unshared=is_unshared) as connection,
            refused_if_missing(connection, lake, at),
        ):
            yield connection


@contextmanager
def connect_up_to_date(
    lake: Lake, *, is_pinned: bool = False, is_unshared: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the lake to read; the tables and views of an earlier gradebook are brought up to date first.

    A lake at a version stays as it was. is_pinned, is_unshared: as for `connect`, which says what is raised.
    """
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        if lake.at is not None or is_up_to_date(connection):
            yield connection
            return
    prepare_lake(lake)
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        yield connection


def commit(lake: Lake, message: str, body: Body, *, extra: str = "{}", other_bytes: int = 0) -> int:
    """Run `body(connection, version)` as one transaction and return its version. other_bytes: as for `connect`.

    The first of two writers wins; the other one's whole transaction, with all that it read, is run again. So it is
    where the catalog's server went away for less than a minute, unless it went through.
    Raises `LakeUnavailable` where the catalog stays locked for three minutes, or its server away.
    """
    transaction = Transaction(lake, body, message, extra)
    return transaction.run(lambda: connect(lake, other_bytes=other_bytes))


def prepare_lake(lake: Lake) -> None:
    """Make the tables and views that are not there yet, and widen those of an earlier gradebook.

    Object storage is written to, so that whoever can't is told so before the work.
    """
    if lake.bucket is not None:
        probe_store(lake.bucket)
    try:
        with connect(lake, read_only=True) as connection:  # whoever may only read need not write
            if is_up_to_date(connection):
                return
    except NoLakeThere:
        if _is_taken(lake):
            raise LakeError(f"{lake.name}: found a database of something else, expected a lake's or none") from None

    def make_tables(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        if not is_up_to_date(connection):
            bring_up_to_date(connection)

    commit(lake, "make tables", make_tables)


def upgrade_lake(lake: Lake) -> None:
    """Bring the tables of a lake that is there up to what this gradebook reads; do nothing where there is none."""
    with suppress(NoLakeThere), connect_up_to_date(lake):
        return


def _is_taken(lake: Lake) -> bool:
    """Whether the catalog's file holds something; an empty file is as good as none."""
    if lake.catalog != "sqlite" or not os.path.exists(lake.address):  # noqa: PTH110 - Path raises on too long a name
        return False
    return os.path.getsize(lake.address) > 0  # noqa: PTH202

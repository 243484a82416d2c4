"""The lake: a DuckLake of a SQL catalog and Parquet files, opened to read or to commit.

A commit that meets another writer fails whole, so the whole transaction is run again.
"""

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from rubrics.errors import LakeError
from tasks.lake_errors import COMMIT_DEADLINE_S, is_conflict, opening_fault
from tasks.lake_extensions import load_extensions
from tasks.lake_tables import bring_up_to_date, is_up_to_date, missing_parts
from tasks.sql_text import quoted

PARTITION = re.compile(r"[^=]+=[^=]*")  # how a partitioned table's folders are named
DEFAULT_LAKE = "sqlite:lake/catalog.sqlite"
EXTENSIONS = {"sqlite": "sqlite_scanner", "postgres": "postgres_scanner"}
# A second thread adds half to what a query of a few rows costs; a query of these many bytes is fast with one.
ONE_THREAD_BYTES = 64 * 2**20
# Rows of small tables stay in the catalog: a run would otherwise leave a dozen tiny files.
INLINED_ROW_LIMIT = 200
MOST_SHOWN = 5  # of what an earlier version lacks

_DATA_BYTES = "select coalesce(sum(file_size_bytes), 0) from __ducklake_metadata_lake.ducklake_data_file"

_verified: set[str] = set()  # the catalogs whose extensions this process has loaded with their signatures checked

# Two threads of one process that use one SQLite catalog at once wait for each other for ever (DuckDB 1.5.5): a thread
# at a time. Processes do not: they meet as conflicts.
_TURN = threading.RLock()

Body = Callable[[duckdb.DuckDBPyConnection, int], None]


@dataclass(frozen=True, slots=True)
class Lake:
    """Where a lake is. root: the local folder of data files, journals and the runs' working folders.

    at: the version that is read, and nothing written; None: the last one.
    """

    catalog: str  # sqlite | postgres
    address: str  # the SQLite file, or PostgreSQL's connection string
    root: Path
    at: int | None = None

    @property
    def data_path(self) -> Path:
        """The folder of the tables' Parquet files."""
        return self.root / "data"

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
        """Whether somebody made this lake already. Raises `LakeError` where its catalog can't be opened."""
        if not self.is_there:
            return False
        try:
            with connect(self, read_only=True):
                return True
        except NoLakeThere:
            return False


class NoLakeThere(LakeError):
    """The catalog's file is not there, or its database holds no lake yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)  # args == parameters, so it pickles

    def __str__(self) -> str:
        return f"{self.args[0]}: found no lake there, expected one; `gradebook evaluate` or `gradebook demo` makes it"


def find_lake(uri: str, data: str | None = None) -> Lake:
    """Read a lake's URI, `sqlite:FILE` or `postgres:CONNECTION`. Raises `LakeError` for any other."""
    catalog, _, address = uri.partition(":")
    if catalog not in EXTENSIONS or not address:
        found = uri if "@" not in uri and "password" not in uri else f"{catalog}:..."
        raise LakeError(f"--lake: found {found!r}, expected sqlite:FILE or postgres:CONNECTION")
    if data is not None and "://" in data:
        raise LakeError(f"--data: found {data!r}, expected a local folder")
    if catalog == "sqlite":
        path = Path(address).absolute()
        return Lake(catalog, str(path), _root(Path(data) if data else path.parent))
    if data is None:
        raise LakeError("--data: found none, expected the folder of the Parquet files of a PostgreSQL lake")
    is_url = address.startswith("//")  # libpq knows postgresql://USER@HOST/DATABASE, and dbname=... host=...
    return Lake(catalog, f"postgresql:{address}" if is_url else address, _root(Path(data)))


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
    lake: Lake, *, read_only: bool = False, at: int | None = None, other_bytes: int = 0
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the lake as the default database of a new connection; `at`: as it was at that version, not at `lake.at`.

    other_bytes: what the block reads beside the lake: queries of a small lake and little else run on one thread.
    Raises `LakeError` where there is no lake, it can't be opened or written, or the version lacks what the block reads.
    """
    at = lake.at if at is None else at
    if read_only and not lake.is_there:
        raise NoLakeThere(lake.name)
    if not read_only:
        _make_folders(lake)
    # DuckDB hashes 70 MB to check the extensions' signatures: 90 ms, once a process and not at each of a dozen turns.
    with _TURN:
        connection = duckdb.connect(config={"allow_unsigned_extensions": lake.catalog in _verified, "threads": 1})
        try:
            load_extensions(connection, "ducklake", EXTENSIONS[lake.catalog])
            _verified.add(lake.catalog)
            _attach(connection, lake, read_only=read_only, at=at)
            if other_bytes > ONE_THREAD_BYTES or _is_large(connection):
                connection.execute("reset threads")
            with _refused_if_missing(connection, at):
                yield connection
        finally:
            connection.close()


@contextmanager
def _refused_if_missing(connection: duckdb.DuckDBPyConnection, at: int | None) -> Iterator[None]:
    """Say which tables and columns a version of an earlier gradebook lacks, where the block misses one."""
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        missing = missing_parts(connection) if at is not None else []
        if not missing:
            raise
        shown = [*missing[:MOST_SHOWN], *([f"{len(missing) - MOST_SHOWN} more"] if len(missing) > MOST_SHOWN else [])]
        raise LakeError(
            f"--at: found version {at}, made before the lake had {', '.join(shown)}; expected a later one; "
            f"`gradebook sql --at {at}` reads what is there"
        ) from error


@contextmanager
def connect_up_to_date(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the lake to read; the tables and views of an earlier gradebook are brought up to date first.

    A lake at a version stays as it was. Raises `LakeError` as `connect` does.
    """
    with connect(lake, read_only=True) as connection:
        if lake.at is not None or is_up_to_date(connection):
            yield connection
            return
    prepare_lake(lake)
    with connect(lake, read_only=True) as connection:
        yield connection


def commit(lake: Lake, message: str, body: Body, *, extra: str = "{}", other_bytes: int = 0) -> int:
    """Run `body(connection, version)` as one transaction and return its version. other_bytes: as for `connect`.

    The first of two writers wins; the other one's whole transaction, with all that it read, is run again.
    Raises `LakeError` when the catalog stays locked for three minutes.
    """
    deadline = time.monotonic() + COMMIT_DEADLINE_S
    attempt = 0
    with connect(lake, other_bytes=other_bytes) as connection:
        while True:
            try:
                return _commit_once(connection, message, body, extra)
            except duckdb.Error as error:
                _rollback(connection)
                if not is_conflict(error):
                    raise
                if time.monotonic() > deadline:
                    raise LakeError(
                        f"{lake.name}: the catalog stayed locked for {COMMIT_DEADLINE_S:.0f} s: {error}"
                    ) from error
            except BaseException:
                _rollback(connection)
                raise
            attempt += 1
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2**attempt)))  # noqa: S311 - jitter, no secret


def prepare_lake(lake: Lake) -> None:
    """Make the tables and views that are not there yet, and widen those of an earlier gradebook."""
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


def _commit_once(connection: duckdb.DuckDBPyConnection, message: str, body: Body, extra: str) -> int:
    connection.execute("begin")
    version = _scalar(connection, "select id from ducklake_current_snapshot('lake')") + 1
    body(connection, version)
    connection.execute("call lake.set_commit_message('gradebook', ?, extra_info => ?)", [message, extra])
    connection.execute("commit")
    return version


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    rows = connection.execute(query).fetchall()  # one row taken would leave the query open, and the catalog read
    return int(rows[0][0]) if rows else 0


def _is_large(connection: duckdb.DuckDBPyConnection) -> bool:
    with suppress(duckdb.Error):  # somebody commits at this moment
        return _scalar(connection, _DATA_BYTES) > ONE_THREAD_BYTES
    return True


def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("rollback")
    except duckdb.Error:  # the failed commit ended the transaction already
        return


def _make_folders(lake: Lake) -> None:
    folders = [lake.root, lake.data_path, lake.journal_folder]
    if lake.catalog == "sqlite":
        folders.append(Path(lake.address).parent)
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(f"{folder}: can't make the lake's folder: {error.strerror}") from error


def _attach(connection: duckdb.DuckDBPyConnection, lake: Lake, *, read_only: bool, at: int | None) -> None:
    options = [f"data_path '{quoted(str(lake.data_path))}/'", "override_data_path true"]
    options.append("read_only" if read_only else f"data_inlining_row_limit {INLINED_ROW_LIMIT}")
    if at is not None:
        options.append(f"snapshot_version {at:d}")
    attach = f"attach 'ducklake:{lake.catalog}:{quoted(lake.address)}' as lake ({', '.join(options)})"
    # 0: DuckLake's own retry would keep what our transaction read; ours reads it again.
    connection.execute("set ducklake_max_retry_count = 0")
    deadline = time.monotonic() + COMMIT_DEADLINE_S
    for statement in (attach, "use lake"):  # both read the catalog, which somebody else may write
        while True:
            try:
                connection.execute(statement)
                break
            except duckdb.Error as error:
                if read_only and "creating a new DuckLake is explicitly disabled" in str(error):
                    raise NoLakeThere(lake.name) from None
                if not is_conflict(error) or time.monotonic() > deadline:
                    raise LakeError(opening_fault(lake, error, at)) from None  # DuckDB's text holds the password
                time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - jitter, no secret

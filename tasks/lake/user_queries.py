"""Read-only SQL queries of users over the lake, in a locked-down connection.

The lists say which functions and views of DuckDB a query may not name, and which table functions it may. Refused is
what reads or changes something outside the query's rows: a file, a setting, the server, a log, another statement. A
test compares the names of the installed DuckDB with a file and fails at a new one.
"""

import errno
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.errors import reader_fault
from gradebook.tasks.lake.object_store import store_fault
from gradebook.tasks.lake.schema import foreign_views, views_ever
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.system.processes import ChildKilled, ChildTimeout, call_in_child, limit_files, limit_memory

BATCH_ROWS = 10_000
MARGIN_BYTES = 2**28
DISK_SHARE = 4  # rows, and DuckDB's spilled rows, may each take a quarter of the free disk
Rows = TypeVar("Rows")
READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s+", re.IGNORECASE)
CATALOG_PREFIX = "__ducklake_metadata"  # DuckLake's own name for the SQLite or PostgreSQL database behind the lake


def run_query(lake: Lake, query: str) -> pa.Table:
    """Run one reading statement over the lake in half of the memory, spilling to TMPDIR.

    Raises `QueryError` for anything but one `select` (or `from`, `show`, `describe`, `explain`) over the lake's tables,
    and for any error of DuckDB about it. A text or list of one row can take more memory: see `run_bounded_query`.
    """
    with tempfile.TemporaryDirectory(prefix="gradebook-sql-") as folder:
        return _run(lake, query, folder, _fetch_table)


def run_bounded_query(lake: Lake, query: str, timeout_s: float) -> pa.Table:
    """Run a statement as `run_query` does, in a child process with limits that hold for every function.

    Raises `QueryError` also if it takes longer than `timeout_s`, or more than half of the memory (on Linux).
    """
    with tempfile.TemporaryDirectory(prefix="gradebook-sql-") as folder:
        file = f"{folder}/rows.arrow"

        def write(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
            # DuckDB's own limit does not count single texts and lists; the margin covers its other needs.
            ((limit,),) = connection.execute("select current_setting('memory_limit')").fetchall()
            limit_memory(_bytes(limit) + MARGIN_BYTES)
            limit_files(_disk_share(folder))
            rows = connection.execute(statement).to_arrow_reader(BATCH_ROWS)
            try:
                with pa.OSFile(file, "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
                    for batch in rows:
                        writer.write_batch(batch)
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                excess = f"rows that take more than 1/{DISK_SHARE} of the free disk"
                raise QueryError("sql", excess, "fewer rows", "TMPDIR names the folder that they go through") from None

        try:
            call_in_child(lambda: _run(lake, query, folder, write), timeout_s)
        except ChildKilled:
            raise _too_large() from None
        except ChildTimeout:
            raise QueryError(
                "sql",
                f"a query that takes longer than {timeout_s:g} s",
                "a shorter one",
                "`gradebook sql --timeout` sets another limit",
            ) from None
        with pa.memory_map(file) as source:
            return pa.ipc.open_stream(source).read_all()


def _run(
    lake: Lake, query: str, folder: str, fetch: Callable[[duckdb.DuckDBPyConnection, duckdb.Statement], Rows]
) -> Rows:
    with connect(lake, read_only=True, is_unshared=True) as connection:
        _lock_down(connection, lake, folder)
        statement = _only_statement(connection, query)
        _refuse_other_sources(connection, statement, lake.at)
        try:
            return fetch(connection, statement)
        except (duckdb.OutOfMemoryException, pa.ArrowMemoryError, MemoryError):
            raise _too_large() from None
        except duckdb.Error as error:
            if fault := reader_fault(lake, error) or store_fault(lake.bucket, error):
                raise fault from None
            raise QueryError(f"sql: {error}") from error


def _too_large() -> QueryError:
    return QueryError(
        "sql",
        "a query that needs more memory at once than half of what there is",
        "less, as a list or a window over fewer rows",
    )


def _fetch_table(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> pa.Table:
    """Rows of a statement. Executed in another thread: DuckDB ignores Ctrl-C until a step is done."""
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(lambda: connection.execute(statement).to_arrow_table())
        try:
            return future.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _only_statement(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise QueryError(f"sql: {error}") from error
    if len(statements) != 1:
        raise QueryError("sql", f"{len(statements)} statements", "one")
    if statements[0].type not in READING:
        raise QueryError("sql", f"a statement of type {statements[0].type.name}", "one that only reads")
    return statements[0]


@dataclass(frozen=True, slots=True)
class _Views:
    """Lower-case names of views: foreign views at the version read, and all views of any version."""

    foreign: set[str]
    ever: set[str]


def _refuse_other_sources(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, at: int | None) -> None:
    """Check the parsed select: an `explain` may wrap a write, and a function or view may read anything."""
    select = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        head = EXPLAIN.match(select)  # only at the start: removing it from a comment could hide the next line
        select = select[head.end() :] if head else select
    views = _Views(foreign_views(connection, at), views_ever(connection))
    for node in _nodes(_parsed(connection, select)):
        _refuse_function(node)
        if node.get("type") == "BASE_TABLE":
            _refuse_table(node, views)


def _refuse_function(node: dict[str, Any]) -> None:
    """Refuse table functions beyond the allowed ones, and other functions that reach beyond their arguments.

    A catalog with functions of its own is never opened.
    """
    is_table = node.get("type") == "TABLE_FUNCTION"
    name = str((node["function"] if is_table else node).get("function_name", "")).lower()
    if is_table and name not in TABLE_FUNCTIONS:
        raise QueryError("sql", f"the table function {name}", "the lake's tables")
    if not is_table and (name in REFUSED_FUNCTIONS or name.startswith(REFUSED_PREFIXES)):
        raise QueryError("sql", f"the function {name}", "one of those that only compute")


def _refuse_table(node: dict[str, Any], views: _Views) -> None:
    table, qualifiers = node["table_name"], (node["catalog_name"], node["schema_name"])
    name = table.lower()
    if "://" in table:  # DuckDB would treat s3://LAKE/../OTHER as a file of the lake
        raise QueryError("sql", f"the address {table}", "the lake's tables")
    if name in REFUSED_SYSTEM_VIEWS or any(qualifier.lower().startswith(CATALOG_PREFIX) for qualifier in qualifiers):
        raise QueryError("sql", f"the catalog's own table {table}", "the lake's tables")
    if name in views.foreign:
        raise QueryError("sql", f"the view {name!r}, which gradebook did not make", "the lake's tables")
    if name in views.ever and node.get("at_clause"):
        raise QueryError("sql", f"the view {name!r} at another version", "a table", "--at reads views, too")


def _parsed(connection: duckdb.DuckDBPyConnection, select: str) -> object:
    row = connection.execute("select json_serialize_sql(?)", [select]).fetchone()
    try:
        tree = json.loads(row[0]) if row else {"error": True}
    except RecursionError:
        raise QueryError("sql", "a statement nested too deeply", "a few hundred levels at most") from None
    if tree["error"]:
        raise QueryError("sql", "a statement that is no select", "one that only reads")
    return tree


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed statement."""
    branches = [tree]
    while branches:
        branch = branches.pop()
        if isinstance(branch, dict):
            yield branch
            branches.extend(branch.values())
        elif isinstance(branch, list):
            branches.extend(branch)


def _lock_down(connection: duckdb.DuckDBPyConnection, lake: Lake, folder: str) -> None:
    """Forbid files outside the lake's tables, extensions and changes of settings.

    folder: where DuckDB may spill.
    """
    connection.execute(f"set memory_limit = '{_half_memory(connection)}'")
    connection.execute(f"set temp_directory = '{quoted(folder)}'")
    connection.execute(f"set max_temp_directory_size = '{_disk_share(folder) // 2**20}MiB'")
    connection.execute(f"set allowed_directories = ['{quoted(lake.data_path)}/', '{quoted(folder)}/']")
    connection.execute("set python_enable_replacements = false")  # `from lake` must not read a variable of this program
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _half_memory(connection: duckdb.DuckDBPyConnection) -> str:
    """Half of DuckDB's limit, which is most of the machine's memory: writing the result needs a second copy."""
    ((limit,),) = connection.execute("select current_setting('memory_limit')").fetchall()  # as 18.8 GiB
    size, unit = limit.split()
    return f"{float(size) / 2} {unit}"


def _disk_share(folder: str) -> int:
    return shutil.disk_usage(folder).free // DISK_SHARE


def _bytes(size: str) -> int:
    """Bytes of a size as DuckDB writes it: 18.8 GiB."""
    number, unit = size.split()
    return int(float(number) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# fmt: off
# Scalar functions, aggregates and macros that reach beyond their arguments.
REFUSED_FUNCTIONS = frozenset((
    # settings, variables and the environment
    "current_setting", "getenv", "getvariable",
    # other statements: planning one calls its functions
    "json_deserialize_sql", "json_serialize_plan", "json_serialize_sql",
    # the session, its transactions, and the catalog's own tables
    "current_connection_id", "current_query_id", "current_transaction_id", "get_block_size", "in_search_path",
    "pg_get_constraintdef", "pg_get_viewdef", "txid_current",
    # state that a query would change, logs, and waiting
    "currval", "nextval", "parse_duckdb_log_message", "pg_sleep", "setseed", "sleep_ms", "write_log",
    # internals, made for arguments that DuckDB prepares itself
    "can_cast_implicitly", "cast_to_type", "combine", "constant_or_null", "create_sort_key", "finalize", "get_type",
    "make_type", "remap_struct", "replace_type", "stats", "timetz_byte_comparable", "variant_bytes_to_variant",
    "variant_to_parquet_variant", "vector_type",
))
# fmt: on
REFUSED_PREFIXES = ("__internal_", "icu_collate_")
# Other table functions reach beyond the lake: sqlite_scan reads any SQLite file on disk, postgres_query the whole
# server. DuckDB's settings do not restrict them.
TABLE_FUNCTIONS = _names(
    """
duckdb_columns duckdb_functions duckdb_tables ducklake_current_snapshot ducklake_snapshots ducklake_table_changes
ducklake_table_deletions ducklake_table_info ducklake_table_insertions generate_series json_each json_tree range
unnest
"""
)
REFUSED_SYSTEM_VIEWS = _names(  # connection strings, settings, logs
    """
duckdb_databases duckdb_logs pg_database pg_prepared_statements pg_settings pg_tablespace pragma_database_list
"""
)

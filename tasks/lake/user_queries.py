"""Read-only SQL queries of users over the lake, in a locked-down connection."""

import json
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.errors import reader_fault
from gradebook.tasks.lake.object_store import store_fault
from gradebook.tasks.lake.sql import quoted

READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s+", re.IGNORECASE)
# Other table functions reach beyond the lake: sqlite_scan reads any SQLite file on disk, postgres_query the whole
# server. DuckDB's settings don't restrict them.
# DuckDB's settings don't hold them back.
TABLE_FUNCTIONS = {
    "range",
    "generate_series",
    "unnest",
    "json_each",
    "json_tree",
    "duckdb_tables",
    "duckdb_columns",
    "duckdb_functions",
    "ducklake_snapshots",
    "ducklake_current_snapshot",
    "ducklake_table_info",
    "ducklake_table_changes",
    "ducklake_table_insertions",
    "ducklake_table_deletions",
}
DATABASE_LISTS = {"duckdb_databases", "pragma_database_list"}  # these list the whole connection string
SETTINGS = {"current_setting", "pg_settings"}  # paths of this machine; keys and proxy passwords, if set
# How DuckDB writes a view of plain names; a quoted name could hide where the body begins.
VIEW_HEAD = re.compile(r"CREATE VIEW (?:\w+\.)*\w+ ?(?:\(\w+(?:, \w+)*\) ?)?AS ")
CATALOG_PREFIX = "__ducklake_metadata"  # DuckLake's own name for the SQLite or PostgreSQL database behind the lake


def run_query(lake: Lake, query: str) -> pa.Table:
    """Run one reading statement over the lake in half of the memory, spilling to TMPDIR.

    Raises `QueryError` for anything but one `select` (or `from`, `show`, `describe`, `explain`) over the lake's tables,
    and for any error of DuckDB about it.
    """
    with (
        tempfile.TemporaryDirectory(prefix="gradebook-sql-") as folder,
        connect(lake, read_only=True, is_unshared=True) as connection,
    ):
        _lock(connection, lake, folder)
        statement = _only_statement(connection, query)
        _refuse_other_sources(connection, statement)
        try:
            return _answer(connection, statement)
        except duckdb.OutOfMemoryException:
            raise QueryError(
                "sql",
                "a query that needs more memory at once than half of what there is",
                "less, as a list or a window over fewer rows",
            ) from None
        except duckdb.Error as error:
            if fault := reader_fault(lake, error) or store_fault(lake.bucket, error):
                raise fault from None
            raise QueryError(f"sql: {error}") from error


def _answer(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> pa.Table:
    """Rows of a statement. Executed in another thread: DuckDB ignores Ctrl-C until a step is done."""
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(lambda: connection.execute(statement).to_arrow_table())
        try:
            return asked.result()
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


def _refuse_other_sources(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    """Check the parsed select: an `explain` may wrap a write, and a table function may read anything."""
    select = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        head = EXPLAIN.match(select)  # only at the start: removing it from a comment could hide the next line
        select = select[head.end() :] if head else select
    own_functions = _column(connection, "select function_name from duckdb_functions() where database_name = 'lake'")
    listed = (
        "select lower(view_name), string_agg(sql, chr(0)) from duckdb_views() where database_name = 'lake' group by 1"
    )
    views = dict(connection.execute(listed).fetchall())
    _refuse_functions_and_tables(connection, select, own_functions, views)


def _refuse_functions_and_tables(
    connection: duckdb.DuckDBPyConnection, select: str, own_functions: set[str], views: dict[str, str]
) -> None:
    """Check all nodes of a select, and recursively the views that it reads.

    views: texts of the views not checked yet, by lower-case name; checked ones are removed.
    """
    for node in _nodes(_parsed(connection, select)):
        _refuse_function(node, own_functions)
        if node.get("type") == "BASE_TABLE":
            _refuse_table(node)
            name = node["table_name"].lower()
            for view in views.pop(name, "").split("\0"):  # anyone who may write the lake can define any view
                if view:
                    _refuse_functions_and_tables(connection, _body(name, view), own_functions, views)


def _refuse_function(node: dict[str, Any], own_functions: set[str]) -> None:
    name = str(node.get("function_name", "")).lower()
    if node.get("type") == "TABLE_FUNCTION":
        name = node["function"]["function_name"].lower()
        if name not in TABLE_FUNCTIONS:
            raise QueryError("sql", f"the table function {name}", "the lake's tables")
    if name in own_functions:
        raise QueryError("sql", f"the function {name} of the lake itself", "one of DuckDB's")
    if name in SETTINGS:
        raise QueryError("sql", name, "the lake's tables")


def _refuse_table(node: dict[str, Any]) -> None:
    table, places = node["table_name"], (node["catalog_name"], node["schema_name"])
    if "://" in table:  # DuckDB would treat s3://LAKE/../OTHER as a file of the lake
        raise QueryError("sql", f"the address {table}", "the lake's tables")
    is_listed = table.lower() in DATABASE_LISTS | SETTINGS
    if is_listed or any(name.lower().startswith(CATALOG_PREFIX) for name in places):
        raise QueryError("sql", f"the catalog's own table {table}", "the lake's tables")


def _body(name: str, view: str) -> str:
    head = VIEW_HEAD.match(view)
    if head is None:
        raise QueryError("sql", f"the view {name!r}, whose text can't be checked", "the lake's tables")
    return view[head.end() :].rstrip(";\n ")


def _parsed(connection: duckdb.DuckDBPyConnection, select: str) -> object:
    row = connection.execute("select json_serialize_sql(?)", [select]).fetchone()
    try:
        tree = json.loads(row[0]) if row else {"error": True}
    except RecursionError:
        raise QueryError("sql", "a statement nested too deeply", "a few hundred levels at most") from None
    if tree["error"]:
        raise QueryError("sql", "a statement that is no select", "one that only reads")
    return tree


def _column(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    return {str(value).lower() for (value,) in connection.execute(query).fetchall()}


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


def _lock(connection: duckdb.DuckDBPyConnection, lake: Lake, folder: str) -> None:
    """Forbid files outside the lake's tables, extensions and changes of settings.

    folder: where DuckDB may spill.
    """
    connection.execute(f"set memory_limit = '{_half_memory(connection)}'")
    connection.execute(f"set temp_directory = '{quoted(folder)}'")
    connection.execute(f"set allowed_directories = ['{quoted(lake.data_path)}/', '{quoted(folder)}/']")
    connection.execute("set python_enable_replacements = false")  # `from lake` must not read a variable of this program
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _half_memory(connection: duckdb.DuckDBPyConnection) -> str:
    """Half of DuckDB's limit, which is most of the machine's memory: writing the result needs a second copy."""
    ((limit,),) = connection.execute("select current_setting('memory_limit')").fetchall()  # as 18.8 GiB
    size, unit = limit.split()
    return f"{float(size) / 2} {unit}"

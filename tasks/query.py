"""A person's SQL over the lake: it reads, and can do nothing else."""

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from rubrics.errors import QueryError
from tasks.lake import Lake, connect
from tasks.sql_text import quoted

READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s+", re.IGNORECASE)
# Any other might reach beyond the lake: sqlite_scan reads each SQLite file on disk, postgres_query the whole server;
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
DATABASE_LISTS = {"duckdb_databases", "pragma_database_list"}  # they show the whole connection string
CATALOG_PREFIX = "__ducklake_metadata"  # DuckLake's own name for the SQLite or PostgreSQL database behind the lake


def run_query(lake: Lake, query: str) -> pa.Table:
    """Run one reading statement over the lake.

    Raises `QueryError` for anything that is not one `select` (or `from`, `show`, `describe`, `explain`) over the lake's
    tables, and for whatever DuckDB finds wrong with it.
    """
    with connect(lake, read_only=True) as connection:
        _lock(connection, lake)
        statement = _only_statement(connection, query)
        _refuse_other_sources(connection, statement)
        try:
            return connection.execute(statement).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"sql: {error}") from error


def _only_statement(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise QueryError(f"sql: {error}") from error
    if len(statements) != 1:
        raise QueryError(f"sql: found {len(statements)} statements, expected one")
    if statements[0].type not in READING:
        raise QueryError(f"sql: found a statement of type {statements[0].type.name}, expected one that only reads")
    return statements[0]


def _refuse_other_sources(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    """Look through the parsed select: what an `explain` holds may write, and a table function may read anything."""
    select = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        head = EXPLAIN.match(select)  # at the start alone: taken out of a comment it could hide the next line
        select = select[head.end() :] if head else select
    row = connection.execute("select json_serialize_sql(?)", [select]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        raise QueryError("sql: found a statement that is no select, expected one that only reads")
    for node in _nodes(tree):
        if node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() not in TABLE_FUNCTIONS:
            name = node["function"]["function_name"]
            raise QueryError(f"sql: found the table function {name}, expected the lake's tables")
        if node.get("type") == "BASE_TABLE":
            table, places = node["table_name"], (node["catalog_name"], node["schema_name"])
            if table.lower() in DATABASE_LISTS or any(name.lower().startswith(CATALOG_PREFIX) for name in places):
                raise QueryError(f"sql: found the catalog's own table {table}, expected the lake's tables")


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of a parsed statement."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _nodes(branch)


def _lock(connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """No file outside the lake's tables, no extension, no setting: what a query could otherwise reach for."""
    folder = quoted(str(lake.data_path))
    connection.execute(f"set allowed_directories = ['{folder}/']")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")

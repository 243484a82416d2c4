"""A person's SQL over the lake: it reads, and can do nothing else."""

import duckdb
import pyarrow as pa

from rubrics.errors import QueryError
from tasks.lake import Lake, connect

READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}


def run_query(lake: Lake, query: str, at: int | None = None) -> pa.Table:
    """Run one reading statement over the lake, as it was at version `at` where one is given.

    Raises `QueryError` for anything that is not one `select` (or `from`, `show`, `describe`, `explain`), and for
    whatever DuckDB finds wrong with it.
    """
    with connect(lake, read_only=True, at=at) as connection:
        _lock(connection, lake)
        statement = _only_statement(connection, query)
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


def _lock(connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """No file outside the lake's tables, no extension, no setting: what a query could otherwise reach for."""
    folder = str(lake.data_path).replace("'", "''")
    connection.execute(f"set allowed_directories = ['{folder}/']")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")

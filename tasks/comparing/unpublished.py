"""A run that is not in the lake yet, shown beside the one that it is compared with."""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from gradebook.tasks.case_criteria import case_criteria_files
from gradebook.tasks.sql_text import file_list, quoted
from gradebook.tasks.workspace import RunFolder


def show_unpublished(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, shard_count: int, baseline_run_id: str
) -> None:
    """Let this connection see of the tables that a comparison reads the baseline's rows and the run's own files.

    A temporary view takes the place of the lake's table of its name. The baseline's id stands within it, so that its
    partition alone is read, whatever is asked of the view. Wants the marts `output_scores` and `run_scores`.
    """
    collected = [folder.collected_file(index) for index in range(shard_count)]
    _shadow(connection, "verdicts", baseline_run_id, _files(collected))
    for mart in ("output_scores", "run_scores"):
        _shadow(connection, mart, baseline_run_id, _files([folder.mart_file(mart)]))
    own = case_criteria_files(folder)
    brought = f"select '{quoted(folder.run_id)}' as run_id, * from {_files(own)}" if own else None
    _shadow(connection, "case_criteria", baseline_run_id, f"({brought})" if brought else None)


def _shadow(connection: duckdb.DuckDBPyConnection, table: str, baseline_run_id: str, source: str | None) -> None:
    columns = [name for name, *_ in connection.execute(f"describe lake.{table}").fetchall()]
    read = f"select {', '.join(columns)} from"
    published = f"{read} lake.{table} where run_id = '{quoted(baseline_run_id)}'"
    own = f" union all {read} {source}" if source else ""
    connection.execute(f"create or replace temp view {table} as {published}{own}")


def _files(files: Iterable[Path]) -> str:
    return f"read_parquet({file_list(str(file) for file in files)})"

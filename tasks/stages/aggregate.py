"""Marts of one run: built from its files, checked, and written as Parquet for publication."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.agreement.audited_scores import add_audited_source
from gradebook.tasks.agreement.mart import add_agreement_source
from gradebook.tasks.comparing.run_comparison import RUN_COMPARISON_SCHEMA, compare_with_baseline
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.marts.checks import check_marts
from gradebook.tasks.marts.models import build_marts, connect_marts
from gradebook.tasks.marts.sources import add_cost_sources, add_opinions, add_score_sources
from gradebook.tasks.published.summary import failed_models
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.quality import sql_findings, store_findings
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed

MEMORY_LIMIT = "500MB"


def aggregate_run(run: Run, ingested: Ingested) -> None:
    """Build the run's marts, and check them in SQL.

    Raises `QualityNotMet` if a check of severity `error` finds a row.
    """
    reporter().begin("aggregate", None)
    with timed(run.folder, "aggregate") as timing:
        _write_marts(run, ingested.shards)
        timing.row_count = ingested.output_count * len(run.rubric.criteria)
    reporter().end("aggregate")


@contextmanager
def built_marts(
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    shards: tuple[str, ...],
    add_costs: Callable[[duckdb.DuckDBPyConnection], None],
    comparison: pa.Table,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]]:
    """Build marts from a run's files in a temporary database; yields a connection and the marts' names.

    add_costs: creates the sources of `stage_costs`. comparison: as `RUN_COMPARISON_SCHEMA`.
    """
    database = folder.path / "marts.duckdb"
    database.unlink(missing_ok=True)
    try:
        with connect_marts(database, MEMORY_LIMIT) as connection:
            add_score_sources(connection, folder, rubric, shards)
            add_costs(connection)
            add_opinions(connection, folder)
            add_agreement_source(connection, lake, folder, rubric)
            add_audited_source(connection, rubric)
            connection.register("source_run_comparisons", comparison)
            yield connection, build_marts(connection)
    finally:
        database.unlink(missing_ok=True)


def _write_marts(run: Run, shards: tuple[str, ...]) -> None:
    costs, comparison = partial(add_cost_sources, run=run), RUN_COMPARISON_SCHEMA.empty_table()
    with built_marts(run.lake, run.folder, run.rubric, shards, costs, comparison) as (connection, marts):
        _add_comparison(connection, run, shards)
        findings = sql_findings(run.run_id, "marts", check_marts(connection))
        for mart in marts:
            _write_mart(connection, run.folder, mart)
    store_findings(run.folder, findings)


def _add_comparison(connection: duckdb.DuckDBPyConnection, run: Run, shards: tuple[str, ...]) -> None:
    """Compare the new scores with those of the baseline, if the run has one."""
    if run.request.baseline is None:
        return
    for mart in ("output_scores", "run_scores"):
        _write_mart(connection, run.folder, mart)
    connection.register("source_run_comparisons", compare_with_baseline(run, shards, failed_models))
    build_marts(connection, only="run_comparisons")


def _write_mart(connection: duckdb.DuckDBPyConnection, folder: RunFolder, mart: str) -> None:
    with replaced_file(folder.mart_file(mart)) as temporary:
        connection.execute(f"copy {mart} to '{quoted(str(temporary))}' (format parquet)")

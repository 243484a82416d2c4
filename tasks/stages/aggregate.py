"""The marts of one run: built from its files, checked, and left as Parquet for the publication."""

import duckdb

from gradebook.tasks.agreement.mart import add_agreement_source
from gradebook.tasks.comparing.mart_rows import RUN_COMPARISON_SCHEMA
from gradebook.tasks.comparing.run_comparison import compare_with_baseline
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.marts.models import CheckFinding, build_marts, connect_marts, run_sql_checks
from gradebook.tasks.marts.sources import add_cost_sources, add_opinions, add_score_sources
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.quality import QualityFinding, keep_findings
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.workspace.folder import RunFolder

MEMORY_LIMIT = "500MB"


def aggregate_run(run: Run, shards: tuple[str, ...]) -> tuple[str, ...]:
    """Build the run's marts and hold them against sql/checks; returns the marts' names.

    Raises `QualityNotMet` when a check of severity `error` finds a row.
    """
    folder = run.folder
    database = folder.path / "marts.duckdb"
    database.unlink(missing_ok=True)
    try:
        with connect_marts(database, MEMORY_LIMIT) as connection:
            add_score_sources(connection, folder, run.rubric, shards)
            add_cost_sources(connection, run)
            add_opinions(connection, folder)
            add_agreement_source(connection, run.lake, folder, run.rubric)
            connection.register("source_run_comparisons", RUN_COMPARISON_SCHEMA.empty_table())
            marts = build_marts(connection)
            _add_comparison(connection, run, len(shards))
            findings = [_finding(folder.run_id, finding) for finding in run_sql_checks(connection)]
            for mart in marts:
                _write_mart(connection, folder, mart)
    finally:
        database.unlink(missing_ok=True)
    keep_findings(folder, findings)
    return marts


def _add_comparison(connection: duckdb.DuckDBPyConnection, run: Run, shard_count: int) -> None:
    """Compare the scores that were just built with those of the baseline, where the run has one."""
    if run.request.baseline is None:
        return
    for mart in ("output_scores", "run_scores"):
        _write_mart(connection, run.folder, mart)
    connection.register("source_run_comparisons", compare_with_baseline(run, shard_count))
    build_marts(connection, only="run_comparisons")


def _write_mart(connection: duckdb.DuckDBPyConnection, folder: RunFolder, mart: str) -> None:
    with replaced_file(folder.mart_file(mart)) as temporary:
        connection.execute(f"copy {mart} to '{quoted(str(temporary))}' (format parquet)")


def _finding(run_id: str, finding: CheckFinding) -> QualityFinding:
    return QualityFinding(
        run_id=run_id,
        stage="marts",
        subject=finding.name,
        expectation=finding.rule,
        is_met=finding.broken_count == 0,
        severity=finding.severity,
        unexpected_count=finding.broken_count,
        observed=finding.example[:200] if finding.example else None,
    )

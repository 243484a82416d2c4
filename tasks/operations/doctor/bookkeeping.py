"""Consistency of the lake's tables: row counts, costs, ids and the ledger."""

from collections.abc import Iterator

import duckdb

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, output_id, stored_output
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.operations.doctor.findings import NOTE, PROBLEM, DoctorFinding, or_fine

BATCH_ROWS = 2_000
SAMPLE_ROWS = 1_000
_CHANGED = "published data was changed: leave the lake as it is, and restore a backup into another folder"

_PUBLISHED_TWICE = """
select run_id, count(*) as row_count from runs group by run_id having count(*) > 1 order by run_id
"""
_PAID_TWICE = """
select judgment_id, count(*) as row_count from judgments group by judgment_id having count(*) > 1 order by judgment_id
"""
_COUNT = "select count(*) from outputs"


def examine_counts(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check each run's counts of read, scored, unscored and refused rows, and its cost."""
    runs = read_rows(connection, query("operations/run_counts"))
    faults = (f"{run['run_id']}: {fault}" for run in runs for fault in _faults(run))
    found = f"{counted(len(runs), 'published run')}: rows and dollars add up"
    yield from or_fine((DoctorFinding("counts", PROBLEM, fault, _CHANGED) for fault in faults), "counts", found)


def examine_doubles(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check that each run and each judgment is stored once."""
    runs = (f"run {row['run_id']}: {row['row_count']} rows" for row in read_rows(connection, _PUBLISHED_TWICE))
    paid = (f"judgment {row['judgment_id']}: {row['row_count']} rows" for row in read_rows(connection, _PAID_TWICE))
    faults = (fault for found in (runs, paid) for fault in found)
    findings = (DoctorFinding("doubles", PROBLEM, f"{fault}, expected one", _CHANGED) for fault in faults)
    yield from or_fine(findings, "doubles", "each run and each judgment is stored once")


def _faults(run: dict[str, object]) -> Iterator[str]:
    counts = {name: value for name, value in run.items() if isinstance(value, int)}
    outputs, scores = counts.get("output_count", 0), counts["score_count"]
    if outputs != scores:
        yield f"found {counted(scores, 'scored output')}, expected {outputs:,}"
    if counts["verdict_count"] != counts["judged_count"] * counts["criterion_count"]:
        expected = f"{counts['criterion_count']:,} for each of {counted(counts['judged_count'], 'output')}"
        yield f"found {counted(counts['verdict_count'], 'verdict')}, expected {expected}"
    if counts["odd_count"]:
        yield f"found {counted(counts['odd_count'], 'verdict')} neither scored nor unscored"
    # A repeated row of the file counts twice as a row and once as an output: there may be more rows, never fewer.
    if "row_count" in counts and outputs + counts["refused_count"] > counts["row_count"]:
        yield (
            f"found {counted(outputs, 'output')} and {counted(counts['refused_count'], 'refused row')}, "
            f"expected at most the {counted(counts['row_count'], 'row')} of the input"
        )
    stated, paid = run["cost_usd"], run["paid_usd"]
    is_known = isinstance(stated, float) and isinstance(paid, float) and not counts["unpriced_count"]
    if is_known and abs(stated - paid) > 1e-9 * max(1.0, abs(paid)):  # type: ignore[operator, arg-type]
        yield f"found ${stated} in its row, expected ${paid}, the sum of its judgments"


def examine_outputs(connection: duckdb.DuckDBPyConnection, *, is_deep: bool) -> Iterator[DoctorFinding]:
    """Check that the ids of outputs match their content; is_deep: all outputs instead of a sample."""
    ((all_count,),) = connection.execute(_COUNT).fetchall()
    sample = "" if is_deep else f" using sample reservoir({SAMPLE_ROWS} rows) repeatable (8)"
    reader = connection.execute(f"select output_id, {', '.join(OUTPUT_COLUMNS)} from outputs{sample}").to_arrow_reader(
        BATCH_ROWS
    )
    ids = ((row["output_id"], output_id(stored_output(row))) for batch in reader for row in batch.to_pylist())
    wrong = (f"output {stored}: its content has the id {made}" for stored, made in ids if stored != made)
    checked = all_count if is_deep else min(SAMPLE_ROWS, all_count)
    found = f"{checked:,} of {counted(all_count, 'output')}: each id matches its content"
    yield from or_fine((DoctorFinding("outputs", PROBLEM, fault, _CHANGED) for fault in wrong), "outputs", found)


def examine_ledger(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the key of each judgment matches its request, and that each verdict has its judgment."""
    verification = verify_ledger(lake)
    for why, count in sorted(verification.not_recomputed.items()):
        yield DoctorFinding("ledger", NOTE, f"not checked: {count} {why}")
    if verification.finding_count:
        found = f"{counted(verification.finding_count, 'difference')} between judgments or verdicts and the ledger"
        yield DoctorFinding("ledger", PROBLEM, found, "gradebook ledger verify")
    else:
        judgments = counted(verification.judgment_count, "judgment")
        found = f"{judgments} and {counted(verification.verdict_count, 'verdict')} agree"
        yield from or_fine((), "ledger", found)

"""The lake's books: rows in and rows out, money spent and money told, and ids that still name what they named."""

from collections.abc import Iterator

import duckdb

from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, Output, output_id
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.operations.doctor.findings import NOTE, PROBLEM, Finding, or_fine
from gradebook.tasks.system.number_format import counted

BATCH_ROWS = 2_000
SAMPLE_ROWS = 1_000
_CHANGED = "keep the lake as it is, and restore a backup of it beside: something changed what was published"

_PUBLISHED_TWICE = """
select run_id, count(*) as row_count from runs group by run_id having count(*) > 1 order by run_id
"""
_PAID_TWICE = """
select judgment_id, count(*) as row_count from judgments group by judgment_id having count(*) > 1 order by judgment_id
"""
_COUNT = "select count(*) from outputs"


def examine_counts(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Whether each run's rows add up: what came in, what was scored or not, what was refused, what was paid."""
    runs = read_rows(connection, query("operations/run_counts"))
    faults = (f"{run['run_id']}: {fault}" for run in runs for fault in _faults(run))
    found = f"{counted(len(runs), 'published run')}: rows and dollars add up"
    yield from or_fine((Finding("counts", PROBLEM, fault, _CHANGED) for fault in faults), "counts", found)


def examine_doubles(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Whether a run or a judgment stands in the lake more than once."""
    runs = (f"run {row['run_id']}: {row['row_count']} rows" for row in read_rows(connection, _PUBLISHED_TWICE))
    paid = (f"judgment {row['judgment_id']}: {row['row_count']} rows" for row in read_rows(connection, _PAID_TWICE))
    faults = (fault for found in (runs, paid) for fault in found)
    findings = (Finding("doubles", PROBLEM, f"{fault}, expected one", _CHANGED) for fault in faults)
    yield from or_fine(findings, "doubles", "each run and each judgment stands there once")


def _faults(run: dict[str, object]) -> Iterator[str]:
    counts = {name: value for name, value in run.items() if isinstance(value, int)}
    outputs, scores = counts.get("output_count", 0), counts["score_count"]
    if outputs != scores:
        yield f"found {scores:,} scored outputs, expected {outputs:,}"
    if counts["verdict_count"] != counts["judged_count"] * counts["criterion_count"]:
        expected = f"{counts['criterion_count']:,} for each of {counts['judged_count']:,} outputs"
        yield f"found {counts['verdict_count']:,} verdicts, expected {expected}"
    if counts["odd_count"]:
        yield f"found {counts['odd_count']:,} verdicts that are neither scored nor unscored"
    # A row that stands in the file twice is read twice and is one output: there may be more rows, never fewer.
    if "row_count" in counts and outputs + counts["refused_count"] > counts["row_count"]:
        yield (
            f"found {outputs:,} outputs and {counts['refused_count']:,} refused rows, "
            f"expected no more than the {counts['row_count']:,} that were read"
        )
    told, paid = run["cost_usd"], run["paid_usd"]
    is_known = isinstance(told, float) and isinstance(paid, float) and not counts["unpriced_count"]
    if is_known and abs(told - paid) > 1e-9 * max(1.0, abs(paid)):  # type: ignore[operator, arg-type]
        yield f"found ${told} in its row, expected ${paid}, the sum of its judgments"


def examine_outputs(connection: duckdb.DuckDBPyConnection, *, is_deep: bool) -> Iterator[Finding]:
    """Whether outputs still have the id that their content gives; is_deep: all of them, not a sample."""
    ((all_count,),) = connection.execute(_COUNT).fetchall()
    sample = "" if is_deep else f" using sample reservoir({SAMPLE_ROWS} rows) repeatable (8)"
    reader = connection.execute(f"select output_id, {', '.join(OUTPUT_COLUMNS)} from outputs{sample}").to_arrow_reader(
        BATCH_ROWS
    )
    ids = (
        (row["output_id"], output_id(Output(*(row[name] for name in OUTPUT_COLUMNS))))
        for batch in reader
        for row in batch.to_pylist()
    )
    wrong = (f"output {kept}: its content is that of {made}" for kept, made in ids if kept != made)
    checked = all_count if is_deep else min(SAMPLE_ROWS, all_count)
    found = f"{checked:,} of {all_count:,} outputs: each has the id that its content gives"
    yield from or_fine((Finding("outputs", PROBLEM, fault, _CHANGED) for fault in wrong), "outputs", found)


def examine_ledger(lake: Lake) -> Iterator[Finding]:
    """Whether each judgment has the key that its question gives, and each verdict its judgment."""
    verification = verify_ledger(lake)
    for why, count in sorted(verification.not_recomputed.items()):
        yield Finding("ledger", NOTE, f"not checked: {count} {why}")
    if verification.finding_count:
        found = f"{verification.finding_count:,} judgments or verdicts do not agree with the ledger"
        yield Finding("ledger", PROBLEM, found, "gradebook ledger verify")
    else:
        found = f"{verification.judgment_count:,} judgments and {verification.verdict_count:,} verdicts agree"
        yield from or_fine((), "ledger", found)

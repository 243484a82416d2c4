"""Data quality: rows of each stage checked against a great-expectations suite, shard by shard.

Findings are lines of the run's folder, and later rows of `quality_results`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import QualityNotMet
from gradebook.tasks.ledger.ledger import run_judgments
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.expectations import check_suite
from gradebook.tasks.system.events import tell_finding
from gradebook.tasks.system.files import append_lines
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed

QUALITY_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),  # which shard or mart
        pa.field("expectation", pa.string(), nullable=False),
        pa.field("is_met", pa.bool_(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),  # error | warning
        pa.field("unexpected_count", pa.int64()),
        pa.field("observed", pa.string()),
    ]
)
BATCH_ROWS = 250_000
# Columns that the suites read; what spans batches, such as the grain, is checked by sql/checks.
MARTS_WITH_A_SUITE = {
    "output_scores": ["output_id", "score"],
    "criterion_scores": ["model", "checkpoint", "criterion_id", "mean"],
    "run_scores": ["model", "checkpoint", "mean"],
}
OUTPUT_COLUMNS = ["output_id", "case_id", "model", "checkpoint", "sample_index", "output"]
VERDICT_COLUMNS = ["output_id", "criterion_id", "status", "score", "reason"]


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """Outcome of one expectation for one shard or mart."""

    run_id: str
    stage: str
    subject: str
    expectation: str
    is_met: bool
    severity: str
    unexpected_count: int | None
    observed: str | None

    def __str__(self) -> str:
        count = "" if self.unexpected_count is None else f", {self.unexpected_count} unexpected"
        return f"{self.subject}: {self.expectation}{count}{f': {self.observed}' if self.observed else ''}"


def validate_outputs(run: Run, shard: str, shard_index: int) -> None:
    """Check one shard of outputs. Raises `QualityNotMet`."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index) as timing:
        narrow = pq.read_table(shard, columns=OUTPUT_COLUMNS)
        validate(run.folder, "ingest", f"shard {shard_index}", narrow)
        timing.row_count = narrow.num_rows


def validate_verdicts(run: Run, shard_index: int) -> None:
    """Check the collected verdicts of one shard. Raises `QualityNotMet`."""
    path = run.folder.collected_file(shard_index)
    _validate_file(run.folder, "verdicts", f"shard {shard_index}", path, VERDICT_COLUMNS)


def validate_judgments(run: Run) -> None:
    """Check the judgments that this run paid for. Raises `QualityNotMet`."""
    with timed(run.folder, "quality") as timing:
        for index, judgments in enumerate(run_judgments(run.lake, run.run_id)):
            validate(run.folder, "judgments", f"batch {index}", judgments)
            timing.row_count += judgments.num_rows


def validate_marts(run: Run) -> None:
    """Check the marts that reports read. Raises `QualityNotMet`."""
    with timed(run.folder, "quality"):
        for mart, columns in MARTS_WITH_A_SUITE.items():
            _validate_file(run.folder, "marts", mart, run.folder.mart_file(mart), columns, f"marts.{mart}")


def _validate_file(
    folder: RunFolder, stage: str, subject: str, path: Path, columns: list[str], suite: str | None = None
) -> None:
    """Check a file against a suite, in batches, because pandas needs many times the memory of Arrow."""
    with pq.ParquetFile(path) as file:
        for index, batch in enumerate(file.iter_batches(BATCH_ROWS, columns=columns)):
            name = f"{subject} · batch {index}" if index else subject
            validate(folder, stage, name, pa.Table.from_batches([batch]), suite)


def validate(
    folder: RunFolder, stage: str, subject: str, table: pa.Table, suite: str | None = None
) -> list[QualityFinding]:
    """Check a table against the suite of its stage, or the one named, and store the findings.

    Raises `QualityNotMet` if an expectation of severity `error` fails.
    """
    if "output" in table.column_names:  # a suite reads the length of a text, never the text
        lengths = pc.utf8_length(table.column("output"))
        table = table.drop_columns(["output"]).append_column("output_characters", lengths)
    outcomes = check_suite(suite or stage, table)
    findings = [QualityFinding(folder.run_id, stage, subject, **outcome) for outcome in outcomes]
    keep_findings(folder, findings)
    return findings


def keep_findings(folder: RunFolder, findings: list[QualityFinding]) -> None:
    """Append findings to the run's folder. Raises `QualityNotMet` if one of severity `error` is not met."""
    lines = "".join(json.dumps(asdict(finding)) + "\n" for finding in findings)
    append_lines(folder.quality_file, lines.encode())
    for finding in findings:
        tell_finding(finding)
    broken = [finding for finding in findings if not finding.is_met and finding.severity == "error"]
    if broken:
        raise QualityNotMet("data quality: " + "; ".join(str(finding) for finding in broken))


def read_findings(folder: RunFolder) -> pa.Table:
    """All findings of the run as `QUALITY_SCHEMA`; the last ones of subjects that a resumed run checked again."""
    if not folder.quality_file.exists():
        return QUALITY_SCHEMA.empty_table()
    rows = [json.loads(line) for line in folder.quality_file.read_text(encoding="utf-8").splitlines()]
    latest = {(row["stage"], row["subject"], row["expectation"]): row for row in rows}
    return pa.Table.from_pylist(list(latest.values()), schema=QUALITY_SCHEMA)

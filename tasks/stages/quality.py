"""Data quality: a great-expectations suite for each stage, run shard by shard, kept as rows of `quality_results`.

great-expectations takes seconds to import, so it is imported where it is used; `warm_up` starts that early.
"""

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import QualityNotMet
from gradebook.tasks.ledger.ledger import run_judgments
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.events import tell_finding
from gradebook.tasks.system.files import append_lines
from gradebook.tasks.system.lazy_imports import deferred_imports, uncollected
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed

if TYPE_CHECKING:
    import pandas as pd

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
# The columns that the suites look at; what spans batches, such as the grain, is held by sql/checks.
MARTS_WITH_A_SUITE = {
    "output_scores": ["output_id", "score"],
    "criterion_scores": ["model", "checkpoint", "criterion_id", "mean"],
    "run_scores": ["model", "checkpoint", "mean"],
}
OUTPUT_COLUMNS = ["output_id", "case_id", "model", "checkpoint", "sample_index", "output"]
VERDICT_COLUMNS = ["output_id", "criterion_id", "status", "score", "reason"]
# Great-expectations' severities in our words.
SEVERITIES = {"critical": "error", "warning": "warning"}
_IMPORT = threading.Lock()
_TURN = threading.RLock()  # great-expectations' context is one for all threads


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """One expectation, held against one shard or mart."""

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


def warm_up() -> threading.Thread:
    """Import great-expectations in the background, while Prefect's server starts."""
    thread = threading.Thread(target=_great_expectations, name="import great_expectations", daemon=True)
    thread.start()
    return thread


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
    """Check a file against a suite, some rows at a time: pandas takes many times the space of Arrow."""
    with pq.ParquetFile(path) as file:
        for index, batch in enumerate(file.iter_batches(BATCH_ROWS, columns=columns)):
            name = f"{subject} · batch {index}" if index else subject
            validate(folder, stage, name, pa.Table.from_batches([batch]), suite)


def validate(
    folder: RunFolder, stage: str, subject: str, table: pa.Table, suite: str | None = None
) -> list[QualityFinding]:
    """Hold a table against the suite of its stage (or the one named) and keep the findings.

    Raises `QualityNotMet` when an expectation of severity `error` fails.
    """
    outcome = _validator(SUITES[suite or stage])(table)
    findings = [_finding(folder.run_id, stage, subject, expectation) for expectation in outcome.results]
    keep_findings(folder, findings)
    return findings


def keep_findings(folder: RunFolder, findings: list[QualityFinding]) -> None:
    """Append findings to the run's folder. Raises `QualityNotMet` where one of severity `error` is not met."""
    lines = "".join(json.dumps(asdict(finding)) + "\n" for finding in findings)
    append_lines(folder.quality_file, lines.encode())
    for finding in findings:
        tell_finding(finding)
    broken = [finding for finding in findings if not finding.is_met and finding.severity == "error"]
    if broken:
        raise QualityNotMet("data quality: " + "; ".join(str(finding) for finding in broken))


def read_findings(folder: RunFolder) -> pa.Table:
    """All findings of the run as `QUALITY_SCHEMA`; of a subject that was validated twice (a resumed run), the last."""
    if not folder.quality_file.exists():
        return QUALITY_SCHEMA.empty_table()
    rows = [json.loads(line) for line in folder.quality_file.read_text(encoding="utf-8").splitlines()]
    latest = {(row["stage"], row["subject"], row["expectation"]): row for row in rows}
    return pa.Table.from_pylist(list(latest.values()), schema=QUALITY_SCHEMA)


def _ingest_expectations() -> list[Any]:
    expect = _great_expectations().expectations
    return [
        expect.ExpectTableRowCountToBeBetween(min_value=1, severity="critical"),
        *(
            expect.ExpectColumnValuesToNotBeNull(column=name, severity="critical")
            for name in ("case_id", "model", "output_characters")
        ),
        expect.ExpectColumnValuesToBeUnique(column="output_id", severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="sample_index", min_value=0, severity="critical"),
        expect.ExpectCompoundColumnsToBeUnique(
            column_list=["case_id", "model", "checkpoint", "sample_index"], severity="warning"
        ),
        expect.ExpectColumnValuesToBeBetween(column="output_characters", min_value=1, mostly=0.99, severity="warning"),
    ]


def _verdict_expectations() -> list[Any]:
    expect = _great_expectations().expectations
    from great_expectations.expectations.row_conditions import Column

    status = Column("status")
    return [
        expect.ExpectColumnValuesToNotBeNull(column="output_id", severity="critical"),
        expect.ExpectColumnValuesToBeInSet(column="status", value_set=["scored", "unscored"], severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="score", min_value=0, max_value=1, severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(
            column="score",
            row_condition=status == "scored",
            severity="critical",
        ),
        expect.ExpectColumnValuesToNotBeNull(
            column="reason",
            row_condition=status == "unscored",
            severity="critical",
        ),
        expect.ExpectCompoundColumnsToBeUnique(column_list=["output_id", "criterion_id"], severity="critical"),
    ]


def _judgment_expectations() -> list[Any]:
    expect = _great_expectations().expectations
    return [
        expect.ExpectColumnValuesToBeUnique(column="judgment_id", severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(column="request_key", severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="cost_usd", min_value=0, severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(column="cost_usd", severity="warning"),
        expect.ExpectColumnValuesToBeBetween(column="completion_tokens", min_value=0, severity="critical"),
        expect.ExpectColumnValuesToBeInSet(column="status", value_set=["scored"], mostly=0.95, severity="warning"),
    ]


def _mart_expectations(grain: list[str], score: str, least: float | None = 0.0) -> Callable[[], list[Any]]:
    def expectations() -> list[Any]:
        expect = _great_expectations().expectations
        unique = (
            expect.ExpectColumnValuesToBeUnique(column=grain[0], severity="critical")
            if len(grain) == 1
            else expect.ExpectCompoundColumnsToBeUnique(column_list=grain, severity="critical")
        )
        return [
            expect.ExpectTableRowCountToBeBetween(min_value=1, severity="critical"),
            unique,
            expect.ExpectColumnValuesToBeBetween(column=score, min_value=least, max_value=1, severity="critical"),
        ]

    return expectations


SUITES: dict[str, Callable[[], list[Any]]] = {
    "ingest": _ingest_expectations,
    "verdicts": _verdict_expectations,
    "judgments": _judgment_expectations,
    # Penalties take an output below 0; sql/checks knows how far.
    "marts.output_scores": _mart_expectations(["output_id"], "score", None),
    "marts.criterion_scores": _mart_expectations(["model", "checkpoint", "criterion_id"], "mean"),
    "marts.run_scores": _mart_expectations(["model", "checkpoint"], "mean"),
}


def _great_expectations() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read at import
    # Of two of its modules, one for a test and one for a drawing, none of ours has need.
    with _IMPORT, uncollected(), deferred_imports("scipy.stats", "altair"):
        import great_expectations
    # One of its modules sets its own level to INFO, to tell of a folder that nobody asked for.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    return great_expectations


@cache
def _context() -> Any:
    context = _great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


def _validator(expectations: Callable[[], list[Any]]) -> Callable[[pa.Table], Any]:
    with _TURN:  # `cache` alone would let two threads make the same suite
        return _make_validator(expectations)


@cache
def _make_validator(expectations: Callable[[], list[Any]]) -> Callable[[pa.Table], Any]:
    """A suite and its batch, made once a process; its runs take turns, since the context is one for all threads."""
    name = f"suite-{id(expectations)}"
    context = _context()
    suite = context.suites.add(_great_expectations().ExpectationSuite(name=name, expectations=expectations()))
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(name)
    columns = _columns_read(suite.expectations)

    def run(table: pa.Table) -> Any:
        frame = _frame(table, columns)
        with _TURN:
            return batch.get_batch({"dataframe": frame}).validate(suite, result_format="BASIC")

    return run


def _columns_read(expectations: list[Any]) -> set[str]:
    """The columns that a suite looks at; no other is turned into pandas."""
    columns: set[str] = set()
    for expectation in expectations:
        columns.update(getattr(expectation, "column_list", []) or [])
        columns.update(filter(None, [getattr(expectation, "column", None)]))
        condition = getattr(expectation, "row_condition", None)
        columns.update([condition.column.name] if condition is not None else [])
    return columns


def _frame(table: pa.Table, columns: set[str]) -> "pd.DataFrame":
    if "output_characters" in columns:  # an output's length stands for its text
        table = table.append_column("output_characters", pc.utf8_length(table.column("output")))
    frame: pd.DataFrame = table.select([name for name in table.column_names if name in columns]).to_pandas()
    return frame


def _finding(run_id: str, stage: str, subject: str, outcome: Any) -> QualityFinding:
    outcome_json = outcome.to_json_dict()
    config, seen = outcome_json["expectation_config"], outcome_json["result"]
    arguments = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    words = ", ".join(f"{key}={_words(value)}" for key, value in arguments.items())
    exception = outcome_json["exception_info"].get("exception_message") if outcome_json.get("exception_info") else None
    observed = exception or seen.get("observed_value", seen.get("partial_unexpected_list") or None)
    return QualityFinding(
        run_id=run_id,
        stage=stage,
        subject=subject,
        expectation=f"{config['type']}({words})",
        is_met=bool(outcome_json["success"]),
        severity=SEVERITIES[config["severity"]],
        unexpected_count=seen.get("unexpected_count"),
        observed=None if observed is None else str(observed)[:200],
    )


def _words(argument: Any) -> str:
    """An argument as a person would write it; a row condition is a tree."""
    if isinstance(argument, dict) and {"column", "operator", "parameter"} <= argument.keys():
        return f"{argument['column']['name']} {argument['operator']} {argument['parameter']}"
    return str(argument)

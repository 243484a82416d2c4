"""Data quality at each stage: what tables must be, checked in SQL, and expectation suites of great-expectations.

Findings are lines of the run's folder, and later rows of `quality_results`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from gradebook.rubrics.model.errors import QualityNotMet
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.ledger.ledger import run_judgments
from gradebook.tasks.marts.checks import CheckFinding, check_rows
from gradebook.tasks.runs.quality_suites import OUTPUTS, SCORES
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.expectations import check_suites, shipped_suites
from gradebook.tasks.system.events import tell_finding
from gradebook.tasks.system.files import append_lines
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed

Engine = Literal["sql", "great_expectations"]
QUALITY_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),  # which shard, batch, check or suite
        pa.field("expectation", pa.string(), nullable=False),
        pa.field("is_met", pa.bool_(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),  # error | warning
        pa.field("unexpected_count", pa.int64()),
        pa.field("observed", pa.string()),
        pa.field("engine", pa.string()),  # null in rows of gradebooks before 0.2
    ]
)
_STAGES = {"outputs": "ingest", "verdicts": "verdicts", "judgments": "judgments"}  # of other tables: marts
_MOST_OBSERVED = 200


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """Outcome of one check or expectation."""

    run_id: str
    stage: str
    subject: str
    expectation: str
    is_met: bool
    severity: str
    unexpected_count: int | None
    observed: str | None
    engine: Engine

    def __str__(self) -> str:
        count = "" if self.unexpected_count is None else f", {self.unexpected_count} unexpected"
        observed = f": {self.observed}" if self.observed else ""
        return f"{self.subject}: {self.expectation.rstrip('.')}{count}{observed}"


def check_outputs(run: Run, shard: str, shard_index: int) -> None:
    """Check one shard of outputs in SQL. Raises `QualityNotMet`."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index):
        store_findings(run.folder, outputs_findings(run.run_id, Path(shard), shard_index))


def outputs_findings(run_id: str, shard: Path, shard_index: int) -> list[QualityFinding]:
    return sql_findings(run_id, "ingest", check_rows("outputs", shard), f"shard {shard_index}")


def check_verdicts(run: Run, shard_index: int) -> None:
    """Check the collected verdicts of one shard in SQL. Raises `QualityNotMet`."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index):
        store_findings(run.folder, verdict_findings(run.folder, shard_index))


def verdict_findings(folder: RunFolder, shard_index: int) -> list[QualityFinding]:
    found = check_rows("verdicts", folder.collected_file(shard_index))
    return sql_findings(folder.run_id, "verdicts", found, f"shard {shard_index}")


def check_judgments(run: Run, has_suites: bool) -> None:
    """Check the judgments that this run paid for in SQL; has_suites: also with the shipped suite.

    Raises `QualityNotMet`.
    """
    with timed(run.folder, "quality"):
        store_findings(run.folder, judgment_findings(run.lake, run.run_id))
    if has_suites:
        check_expectations(run, ("judgments",), (), has_suites)


def judgment_findings(lake: Lake, run_id: str) -> list[QualityFinding]:
    return [
        finding
        for index, judgments in enumerate(run_judgments(lake, run_id))
        for finding in sql_findings(run_id, "judgments", check_rows("judgments", judgments), f"batch {index}")
    ]


def check_output_suites(run: Run, shards: Sequence[str], has_suites: bool) -> None:
    """Check the outputs with the team's suites; has_suites: also with the shipped one. Raises `QualityNotMet`."""
    check_expectations(run, OUTPUTS, shards, has_suites)


def check_score_suites(run: Run, shard_count: int) -> None:
    """Check verdicts and marts with the team's suites, before they are published. Raises `QualityNotMet`."""
    check_expectations(run, SCORES, [str(run.folder.collected_file(index)) for index in range(shard_count)], False)


def check_expectations(run: Run, tables: Iterable[str], files: Sequence[str], has_suites: bool) -> None:
    """Check tables with the team's suites; has_suites: also with the shipped ones. Raises `QualityNotMet`.

    files: of the outputs or the verdicts.
    """
    findings = []
    for table in tables:
        suites = [*(shipped_suites(table) if has_suites else ()), *(each for each in run.suites if each.table == table)]
        if not suites:
            continue
        with COMPUTING, timed(run.folder, "quality"):
            places = files if table in ("outputs", "verdicts") else [str(run.folder.mart_file(table))]
            stage = _STAGES.get(table, "marts")
            outcomes = check_suites(run, table, suites, places)
            findings += [QualityFinding(run.run_id, stage, engine="great_expectations", **each) for each in outcomes]
    store_findings(run.folder, findings)


def sql_findings(run_id: str, stage: str, found: Iterable[CheckFinding], subject: str = "") -> list[QualityFinding]:
    """Findings of checks in SQL. subject: what they were about; empty: their names."""
    return [
        QualityFinding(
            run_id=run_id,
            stage=stage,
            subject=subject or each.name,
            expectation=each.rule,
            is_met=each.broken_count == 0,
            severity=each.severity,
            unexpected_count=each.broken_count,
            observed=each.example[:_MOST_OBSERVED] if each.example else None,
            engine="sql",
        )
        for each in found
    ]


def store_findings(folder: RunFolder, findings: Sequence[QualityFinding]) -> None:
    """Append findings to the run's folder. Raises as `refuse_broken`."""
    append_lines(folder.quality_file, "".join(json.dumps(asdict(finding)) + "\n" for finding in findings).encode())
    for finding in findings:
        tell_finding(finding)
    refuse_broken(findings)


def refuse_broken(findings: Iterable[QualityFinding]) -> None:
    """Raise `QualityNotMet` if one of severity `error` is not met."""
    broken = [finding for finding in findings if not finding.is_met and finding.severity == "error"]
    if broken:
        raise QualityNotMet("data quality: " + "; ".join(map(str, broken)))


def forget_findings(folder: RunFolder) -> None:
    """Delete the findings of an earlier attempt at the run: all stages are checked again."""
    folder.quality_file.unlink(missing_ok=True)


def read_findings(folder: RunFolder) -> pa.Table:
    """All findings of the run as `QUALITY_SCHEMA`."""
    return pa.Table.from_pylist(_stored(folder), schema=QUALITY_SCHEMA)


def expectation_notes(folder: RunFolder) -> list[str]:
    """A sentence for each expectation of severity `warning` that is not met."""
    return [
        f"expectation not met: {QualityFinding(**row)}"
        for row in _stored(folder)
        if row["engine"] == "great_expectations" and not row["is_met"] and row["severity"] == "warning"
    ]


def _stored(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.quality_file.exists():
        return []
    return [json.loads(line) for line in folder.quality_file.read_text(encoding="utf-8").splitlines()]

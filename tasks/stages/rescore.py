"""Rescoring: a new run with an old run's verdicts and another rubric's weights, gates and thresholds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.outputs import QUARANTINE_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.comparing.sides import question_changes
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, taken_ids
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect, connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.stored_run import (
    StoredRun,
    read_stored_run,
    write_run_case_criteria,
    write_run_details,
    write_run_outputs,
    write_run_verdicts,
)
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric
from gradebook.tasks.runs.function_settings import FunctionSettings
from gradebook.tasks.runs.request import EvaluationRequest, refuse_bad_run_id
from gradebook.tasks.runs.run import Run, code_version
from gradebook.tasks.stages.open_run import claimed_run
from gradebook.tasks.stages.pipeline import complete_run, publish_reused
from gradebook.tasks.stages.submit import Stages
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import DEFAULT_LAKE, RunFolder
from gradebook.tasks.workspace.lock import created_at
from gradebook.tasks.workspace.timings import Timing, append_timing, timed

TRIGGER = "rescore"


@dataclass(frozen=True, slots=True)
class RescoreRequest:
    """Request for a rescoring, with the values of the command line. run: id of the run with the verdicts."""

    run: str
    rubric: str
    lake: str = DEFAULT_LAKE
    data: str | None = None
    run_id: str | None = None


def rescore_run(request: RescoreRequest, stages: Stages | None = None) -> tuple[RunSummary, Path]:
    """Publish a run's verdicts as a new run with another rubric; returns its summary and the report's path.

    stages: by default in this thread.

    Raises `InputError`, before anything is written, for an unknown run or rubric, or if the run lacks verdicts for the
    rubric's criteria; `QualityNotMet` if a check fails.
    """
    with _opened_rescoring(request, datetime.now(UTC)) as (run, source):
        engine = stages or Stages()
        summary = complete_run(run, engine, partial(_publish, source))
        engine.show_run(run, summary)
        return summary, run.folder.report_file


def refuse_other_questions(source: StoredRun, rubric: Rubric, counts: Row) -> None:
    """Raise `InputError` that names each criterion of a rubric without verdicts in a run.

    counts: number of verdicts by criterion id.
    """
    olds = {criterion.id: criterion for criterion in source.rubric.criteria}
    faults = []
    for criterion in rubric.criteria:
        if criterion.id not in olds:
            faults.append(f"{criterion.id}: not in {source.name}")
        elif changes := question_changes(olds[criterion.id], criterion, source.rubric, rubric):
            faults.append(f"{criterion.id}: another {' and '.join(changes)}")
        elif olds[criterion.id].applies != criterion.applies:
            faults.append(f"{criterion.id}: another condition")
        elif not counts.get(criterion.id):
            faults.append(f"{criterion.id}: no verdicts")
    if faults:
        raise InputError(
            "--rubric",
            f"criteria of {rubric.id} {rubric.version} without verdicts in run {source.run_id} ({'; '.join(faults)})",
            f"criteria of {source.name} with the same description, levels and method",
            "`gradebook evaluate` judges the new ones, and pays only for them",
        )


@contextmanager
def _opened_rescoring(request: RescoreRequest, now: datetime) -> Iterator[tuple[Run, StoredRun]]:
    """Check the request, then lock the new run's folder while the block runs; an unfinished run is resumed."""
    refuse_bad_run_id(request.run_id)
    lake = find_lake(request.lake, request.data)
    rubric = find_rubric(request.rubric, lake)
    with connect_up_to_date(lake) as connection:
        source = read_stored_run(connection, lake, request.run)
        _refuse_unusable_source(connection, source, rubric)
    refuse_changed_rubric(lake, rubric)

    def run_in(folder: RunFolder) -> Run:
        return Run(
            request=_evaluation(request, source, folder.run_id),
            lake=lake,
            folder=folder,
            rubric=rubric,
            rubric_digest=rubric_digest(rubric),
            judge=None,
            files=(),
            functions=FunctionSettings(),
            dataset_digest=str(source.row["dataset_digest"]),
            created_at=created_at(folder),
            taken_over=_copied_columns(source),
        )

    with claimed_run(lake, _fingerprint(source, rubric), request.run_id, now, run_in) as run:
        yield run, source


def _evaluation(request: RescoreRequest, source: StoredRun, run_id: str) -> EvaluationRequest:
    return EvaluationRequest(
        str(source.row["dataset"]),
        request.rubric,
        lake=request.lake,
        data=request.data,
        trigger=TRIGGER,
        again=("gradebook", "rubric", "reweigh", source.run_id, "--rubric", request.rubric, "--run-id", run_id),
    )


def _refuse_unusable_source(connection: duckdb.DuckDBPyConnection, source: StoredRun, rubric: Rubric) -> None:
    count_select = "select criterion_id, count(*) as count from verdicts where run_id = ? group by criterion_id"
    counts = {row["criterion_id"]: row["count"] for row in read_rows(connection, count_select, source.run_id)}
    refuse_other_questions(source, rubric, counts)
    own_ids = {name for name in counts if name not in {criterion.id for criterion in source.rubric.criteria}}
    if clashing := sorted(own_ids.intersection(taken_ids(rubric))):
        raise InputError(
            "--rubric",
            f"{', '.join(clashing)} in {rubric.id} {rubric.version}, also ids of per-case criteria of {source.run_id}",
            "other ids",
        )
    if not rubric.criteria and not own_ids:
        raise InputError("--rubric", f"no criteria, and no per-case criteria in run {source.run_id}", "some")


def _copied_columns(source: StoredRun) -> Row:
    """Columns of the new run's row that describe the origin of its verdicts."""
    settings = json.loads(source.row["settings"] or "{}")
    # The baseline of the copied verdicts; the new run itself has no baseline.
    compared_with = settings.get("verdicts_baseline_run_id") or settings.get("baseline_run_id")
    settings |= dict.fromkeys(
        ("budget_usd", "feedback", "ratings", "baseline", "baseline_run_id", "baseline_fault", "fail_if", "require")
    )
    settings.pop("require_asked", None)
    settings |= {"ratings_version": None, "rescored_from": source.run_id, "verdicts_baseline_run_id": compared_with}
    copied = {name: source.row[name] for name in ("judge", "stopped_at")}
    return copied | {"settings": json.dumps(settings)}


def _fingerprint(source: StoredRun, rubric: Rubric) -> str:
    """Digest of everything that makes a different run."""
    content = {"rescored_from": source.run_id, "rubric": rubric_digest(rubric), "code_version": code_version()}
    return digest_of(json.dumps(content, sort_keys=True))


def _publish(source: StoredRun, run: Run, stages: Stages) -> None:
    ingested = _write_sources(run, source)
    publish_reused(run, ingested, stages, lambda: _notes(run, source))


def _write_sources(run: Run, source: StoredRun) -> Ingested:
    """Write the sources of the marts and of the publication; repeated completely after an interruption."""
    folder = run.folder
    folder.timings_file.unlink(missing_ok=True)
    write_parquet(folder.quarantine_file, QUARANTINE_SCHEMA.empty_table())  # refused rows belong to the source run
    with timed(folder, "ingest") as timing, connect(run.lake, read_only=True) as connection:
        shard, output_count = write_run_outputs(connection, source, folder)
        parameters = {"run_id": run.run_id, "source_run_id": source.run_id, "dropped": _dropped_ids(run, source)}
        write_run_verdicts(connection, query("stages/reused_verdicts"), folder, **parameters)
        write_run_details(connection, source, folder, dropped=_dropped_ids(run, source))
        write_run_case_criteria(connection, source, folder)
        saved = connection.execute(query("stages/saved_costs"), {"run_id": source.run_id}).to_arrow_table()
        timing.row_count = output_count
    _store_savings(run, source, saved)
    return Ingested((shard,), output_count, output_count, 0, 0, (), ())


def _store_savings(run: Run, source: StoredRun, saved: pa.Table) -> None:
    """Store a timing of 0 s for each criterion, with the reused judgments and their original cost."""
    of_rubric, dropped = {criterion.id for criterion in run.rubric.criteria}, _dropped_ids(run, source)
    for row in saved.to_pylist():
        if row["criterion_id"] in dropped:
            continue
        name = row["criterion_id"] if row["criterion_id"] in of_rubric else CASE_CRITERIA
        counts = (row["row_count"], row["replayed_count"], row["saved_usd"])
        append_timing(run.folder, Timing("score", name, 0.0, 0.0, *counts))


def _dropped_ids(run: Run, source: StoredRun) -> list[str]:
    """Ids of criteria that the new rubric omits."""
    rubric_ids = {criterion.id for criterion in run.rubric.criteria}
    return [criterion.id for criterion in source.rubric.criteria if criterion.id not in rubric_ids]


def _notes(run: Run, source: StoredRun) -> list[str]:
    """Notes of the run, including those of the source run, which has the same input."""
    dropped = _dropped_ids(run, source)
    has_feedback = json.loads(source.row["settings"] or "{}").get("feedback")
    return [
        f"rescored from {source.run_id} ({source.name}), with its verdicts; no judge was asked",
        *([f"left out: {', '.join(dropped)}"] if dropped else []),
        *([f"the judge's feedback is stored only with {source.run_id}"] if has_feedback else []),
        *(f"of {source.run_id}: {note}" for note in source.row["notes"] or ()),
    ]

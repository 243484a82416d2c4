"""Review of one artifact with several rubrics, in this process; each rubric is a run of its own in the lake."""

import json
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.files.digest import rubric_digest
from gradebook.rubrics.model.columns import holds_conversations
from gradebook.rubrics.model.errors import Fault, GradebookError, OutputsError, RubricError
from gradebook.rubrics.model.outputs import describe_value
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.datasets.case_criteria import OwnCount, refuse_no_criteria, taken_ids
from gradebook.tasks.datasets.conversations import answered_row
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import open_for_writing, prepare_lake
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.schema import narrow_to_outputs
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import OPTIONS, EvaluationRequest
from gradebook.tasks.runs.resume_command import option_words
from gradebook.tasks.runs.runner import THREADS
from gradebook.tasks.stages.artifacts import Artifact, ArtifactState, set_state
from gradebook.tasks.stages.check_request import CheckedRequest, check_request
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import evaluate_once
from gradebook.tasks.stages.publish import concluded_run
from gradebook.tasks.stages.submit import StagesInThreads

STDIN = "-"
APPROVED, NEEDS_REVISION = ArtifactState.approved.value, ArtifactState.needs_revision.value
_OUTPUT = "select output_id, score, failed_gates from output_scores where run_id = ?"
_FEEDBACK = "select feedback from output_feedback where run_id = ?"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Outcome of one rubric. score: 0..1, None if a weighted criterion is unscored."""

    rubric: str
    run_id: str
    status: str
    score: float | None
    failed_gates: tuple[str, ...]
    unmet: tuple[str, ...]
    notes: tuple[str, ...]
    verdicts: tuple[Row, ...]
    feedback: str


@dataclass(frozen=True, slots=True)
class Review:
    """Outcomes of several rubrics for one artifact; approved if all are met."""

    artifact: str
    evaluations: tuple[Evaluation, ...]

    @property
    def status(self) -> str:
        """Either approved or needs_revision."""
        is_approved = all(evaluation.status == APPROVED for evaluation in self.evaluations)
        return APPROVED if is_approved else NEEDS_REVISION

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        evaluations = [asdict(evaluation) for evaluation in self.evaluations]
        return {"artifact": self.artifact, "status": self.status, "evaluations": evaluations}


def enter_artifact(name: str, content: bytes, request: EvaluationRequest, target_type: str | None) -> None:
    """Enter an artifact as pending, without a review. Raises `OutputsError` if it is not text."""
    lake = find_lake(request.lake, request.data)
    prepare_lake(lake)
    set_state(lake, Artifact.of(name, content, read_artifact(name, content), target_type), ArtifactState.pending)


def review_artifact(
    name: str, content: bytes, rubrics: tuple[str, ...], request: EvaluationRequest, target_type: str | None = None
) -> Review:
    """Evaluate an artifact with each rubric. name: of the artifact in the lake; request: judge, lake and budget.

    Its state is in_review from the first run's start, then approved or needs_revision, or pending again if the review
    is not finished. A JSON object with an `output` is a row of outputs, with its prompt, reference and context, and so
    is one with chat `messages`, the answer last; any other content is the output itself. Raises `InputError` before
    anything is written, and `UnfinishedError`.
    """
    row = read_artifact(name, content)
    with tempfile.TemporaryDirectory(prefix="gradebook-review-") as folder:
        path = Path(folder) / "artifact.jsonl"
        path.write_text(json.dumps(row, ensure_ascii=True) + "\n", encoding="utf-8")
        asked = replace(
            request, outputs=str(path), trigger="review", dataset=name, max_bad_rate=0.0, runner=THREADS, has_page=False
        )
        again = _again(name, rubrics, request, target_type)
        requests = [replace(asked, rubric=rubric, again=again) for rubric in rubrics]
        lake = find_lake(request.lake, request.data)
        open_for_writing(lake)
        checked = [check_request(each) for each in requests]
        _refuse_misfits(name, row, [each.rubric for each in checked], request)
        prepare_lake(lake)
        artifact = Artifact.of(name, content, row, target_type)
        set_state(lake, artifact, ArtifactState.in_review, request.judge)
        try:
            evaluations = [_evaluate(*pair) for pair in zip(requests, checked, strict=True)]
        except BaseException:  # the judge is gone, the budget reached, Ctrl-C
            with suppress(GradebookError):  # the lake may be what failed
                set_state(lake, artifact, ArtifactState.pending, request.judge)
            raise
        review = Review(name, tuple(evaluations))
        run_ids = [evaluation.run_id for evaluation in review.evaluations]
        set_state(lake, artifact, ArtifactState(review.status), request.judge, run_ids)
        return review


def _again(name: str, rubrics: tuple[str, ...], request: EvaluationRequest, target_type: str | None) -> tuple[str, ...]:
    """Command that resumes the review, with all rubrics: together they approve; empty if it was read from stdin."""
    if name == STDIN:
        return ()
    named = ("judge", "budget_usd", "feedback", "allow_functions", "allow_unscored")
    words = option_words(request, (OPTIONS[option] for option in named))
    kind = () if target_type is None else ("--target-type", target_type)
    return ("gradebook", "review", name, "--rubrics", ",".join(rubrics), *kind, *words)


def _refuse_misfits(name: str, row: Row, rubrics: list[Rubric], request: EvaluationRequest) -> None:
    """Raise faults of all rubrics before the first run starts."""
    digests: dict[tuple[str, str], str] = {}
    for rubric in rubrics:
        fitter = RowFitter({}, taken_ids(rubric), is_unscored_allowed=request.allow_unscored)
        fitted = fitter.fit(row, "jsonl")
        if isinstance(fitted, str):
            raise OutputsError((Fault(name, None, fitted),))
        refuse_no_criteria(rubric, OwnCount(criterion_count=len(row.get("criteria") or ())))
        digest = rubric_digest(rubric)
        if digests.setdefault((rubric.id, rubric.version), digest) != digest:
            message = f"found two texts of {rubric.id} {rubric.version}, expected one"
            raise RubricError((Fault("--rubrics", None, message),))


def read_artifact(name: str, content: bytes) -> Row:
    """Artifact as a row of outputs. Raises `OutputsError` if it is not text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{content[error.start]:02x}, expected text or JSON in UTF-8"
        raise OutputsError((Fault(name, line, message),)) from None
    defaults = {"case_id": Path(name).name or name, "model": "artifact"}
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict) and isinstance(row.get("output"), str):
        return defaults | row
    if isinstance(row, dict) and "output" in row:
        raise OutputsError((Fault(name, None, f"output: found {describe_value(row['output'])}, expected text"),))
    if isinstance(row, dict) and _is_conversation(row):
        found = answered_row(defaults | row, name, {})
        if isinstance(found, str):
            raise OutputsError((Fault(name, None, found),))
        return found
    return defaults | {"output": text}


def _is_conversation(row: Row) -> bool:
    """Whether a JSON object holds chat messages; `messages` of other forms are part of an artifact's content."""
    messages = row.get("messages")
    are_chat = isinstance(messages, list) and all(isinstance(each, dict) and "role" in each for each in messages)
    return bool(messages) and are_chat and holds_conversations(row, {})


def _evaluate(request: EvaluationRequest, checked: CheckedRequest) -> Evaluation:
    with opened_run(request, datetime.now(UTC), checked) as run:
        evaluate_once(run, StagesInThreads())
        with concluded_run(run) as (summary, connection):
            return _evaluation(summary, connection)


def _evaluation(summary: RunSummary, connection: duckdb.DuckDBPyConnection) -> Evaluation:
    (output,) = read_rows(connection, _OUTPUT, summary.run_id)
    narrow_to_outputs(connection, summary.run_id, [output["output_id"]])
    verdicts = read_rows(connection, query("stages/verdicts_of_run"), run_id=summary.run_id)
    (feedback,) = read_rows(connection, _FEEDBACK, summary.run_id)
    # Without requirements, an unknown score still means no approval.
    is_approved = summary.is_met and (summary.has_requirement or output["score"] is not None)
    return Evaluation(
        rubric=f"{summary.run['rubric_id']} {summary.run['rubric_version']}",
        run_id=summary.run_id,
        status=APPROVED if is_approved else NEEDS_REVISION,
        score=output["score"],
        failed_gates=tuple(output["failed_gates"]),
        unmet=tuple(map(str, summary.unmet)),
        notes=tuple(summary.run["notes"] or ()),
        verdicts=verdicts,
        feedback=feedback["feedback"],
    )

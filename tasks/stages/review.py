"""Review of one artifact with several rubrics, in this process; each rubric is a run of its own in the lake.

Artifacts have a state in the lake, and the rubrics of their type.
"""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import duckdb
from pydantic import Field, ValidationError

from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import Fault, GradebookError, InputError, OutputsError, RubricError
from gradebook.rubrics.model.levels import Frozen
from gradebook.rubrics.model.outputs import describe_value, has_conversations
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.named_files import is_path, read_whole
from gradebook.rubrics.text.plain_words import describe, keys_of, unknown_word
from gradebook.rubrics.text.yaml_lines import read_yaml
from gradebook.tasks.datasets.case_criteria import OwnCount, refuse_no_criteria, taken_ids
from gradebook.tasks.datasets.row_parser import RowFitter, answered_row
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, open_for_writing, prepare_lake
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.schema import narrow_to_outputs
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import OPTIONS, EvaluationRequest
from gradebook.tasks.runs.resume_command import option_words
from gradebook.tasks.runs.runner import THREADS
from gradebook.tasks.stages.check_request import CheckedRequest, check_request
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import evaluate_once
from gradebook.tasks.stages.publish import concluded_run
from gradebook.tasks.stages.submit import StagesInThreads

PROVENANCE = ("case_id", "model", "checkpoint", "metadata")  # columns of a JSON artifact that say where it came from
DIGEST_BYTES = 16
MOST_BYTES = 10_000_000  # of a review file
_ROW = "from artifacts where artifact = ? and digest = ?"


class ArtifactState(StrEnum):
    """State of an artifact: one content under one name."""

    pending = "pending"
    in_review = "in_review"
    approved = "approved"
    needs_revision = "needs_revision"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Artifact to review. provenance: its origin, as JSON."""

    name: str
    digest: str
    target_type: str | None
    provenance: str

    @classmethod
    def of(cls, name: str, content: bytes, row: Row, target_type: str | None) -> Self:
        """Artifact from a file's content and the row of outputs made from it."""
        provenance = {key: row[key] for key in PROVENANCE if row.get(key) is not None}
        return cls(
            name,
            hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest(),
            target_type,
            json.dumps(provenance, ensure_ascii=True),
        )


class ReviewMap(Frozen):
    """Content of a review file: the rubrics of each type of artifact."""

    rubrics: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]]


def rubrics_for(target_type: str, path: Path) -> tuple[str, ...]:
    """Rubrics that a review file names for a type of artifact; files are relative to it. Raises `InputError`."""
    try:
        text = read_yaml(read_whole(path, MOST_BYTES), str(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        expected = "expected a file that maps types of artifacts to rubrics, or --rubrics"
        raise InputError(f"{path}", f"can't be read ({reason}), {expected}") from None
    if text.values is None:
        raise RubricError(text.faults)
    try:
        rubrics = ReviewMap.model_validate(text.values).rubrics
    except ValidationError as error:
        descriptions = [describe(fault, fault["loc"], keys_of(ReviewMap)) for fault in error.errors(include_url=False)]
        raise RubricError(
            tuple(Fault(text.path, text.line_of(place), message) for place, message in descriptions)
        ) from None
    if target_type not in rubrics:
        raise InputError("--target-type", repr(target_type), f"{unknown_word(target_type, rubrics)} of {path}")
    return tuple(str(path.parent / name) if is_path(name) else name for name in rubrics[target_type])


def set_state(
    lake: Lake, artifact: Artifact, state: ArtifactState, judge: str | None = None, run_ids: Sequence[str] = ()
) -> None:
    """Set the state of an artifact; its row keeps the time when this content was first entered."""
    now = datetime.now(UTC)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        key = [artifact.name, artifact.digest]
        existing = connection.execute(f"select target_type, created_at {_ROW}", key).fetchone()
        earlier_type, created_at = existing or (None, now)
        if existing:
            connection.execute(f"delete {_ROW}", key)
        target_type = artifact.target_type or earlier_type
        values = [target_type, state, judge, list(run_ids), artifact.provenance, created_at, now]
        connection.execute("insert into artifacts values (?, ?, ?, ?, ?, ?, ?, ?, ?)", [*key, *values])

    commit(lake, f"artifact {artifact.name} is {state}", body)


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

    @property
    def target(self) -> str:
        """Name of the reviewed artifact."""
        return self.artifact

    @property
    def summary(self) -> str:
        """Status with the outcome of each rubric, in one sentence."""
        outcomes = [
            f"{evaluation.rubric} {evaluation.status}{'' if evaluation.score is None else f' ({evaluation.score:.3f})'}"
            for evaluation in self.evaluations
        ]
        return f"{self.artifact}: {self.status}; {', '.join(outcomes)}"

    @property
    def feedback(self) -> str:
        """Feedback of all rubrics, one below the other."""
        return "\n\n".join(f"{evaluation.rubric}\n{evaluation.feedback}" for evaluation in self.evaluations)

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        evaluations = [asdict(evaluation) for evaluation in self.evaluations]
        texts = {"target": self.target, "feedback": self.feedback, "summary": self.summary}
        return {"artifact": self.artifact, "status": self.status, **texts, "evaluations": evaluations}


def enter_artifact(name: str, content: bytes, request: EvaluationRequest, target_type: str | None) -> None:
    """Enter an artifact as pending, without a review. Raises `OutputsError` if it is not text."""
    lake = find_lake(request.lake, request.data)
    prepare_lake(lake)
    set_state(lake, Artifact.of(name, content, read_artifact(name, content), target_type), ArtifactState.pending)


def review_artifact(
    name: str, content: bytes, rubrics: tuple[str, ...], request: EvaluationRequest, target_type: str | None = None
) -> Review:
    """Evaluate an artifact with each rubric. name: of the artifact in the lake; request: gives judge, lake and budget.

    Its state is in_review from the first run's start, then approved or needs_revision, or pending again if the review
    is not finished. A JSON object with an `output` is a row of outputs, with its prompt, reference and context, and so
    is one with chat `messages`, the answer last; any other content is the output itself. Raises `InputError` before
    anything is written, and `UnfinishedError`.
    """
    row = read_artifact(name, content)
    with tempfile.TemporaryDirectory(prefix="gradebook-review-") as folder:
        path = Path(folder) / "artifact.jsonl"
        path.write_text(json.dumps(row, ensure_ascii=True) + "\n", encoding="utf-8")
        base_request = replace(
            request, outputs=str(path), trigger="review", dataset=name, max_bad_rate=0.0, runner=THREADS, has_page=False
        )
        again = _resume_words(name, rubrics, request, target_type)
        requests = [replace(base_request, rubric=rubric, again=again) for rubric in rubrics]
        lake = find_lake(request.lake, request.data)
        open_for_writing(lake)
        checked_requests = [check_request(rubric_request) for rubric_request in requests]
        _refuse_misfits(name, row, [checked_request.rubric for checked_request in checked_requests], request)
        prepare_lake(lake)
        artifact = Artifact.of(name, content, row, target_type)
        set_state(lake, artifact, ArtifactState.in_review, request.judge)
        try:
            evaluations = [_evaluate(*pair) for pair in zip(requests, checked_requests, strict=True)]
        except BaseException:  # the judge is gone, the budget reached, Ctrl-C
            with suppress(GradebookError):  # the lake itself may have failed
                set_state(lake, artifact, ArtifactState.pending, request.judge)
            raise
        review = Review(name, tuple(evaluations))
        run_ids = [evaluation.run_id for evaluation in review.evaluations]
        set_state(lake, artifact, ArtifactState(review.status), request.judge, run_ids)
        return review


def _resume_words(
    name: str, rubrics: tuple[str, ...], request: EvaluationRequest, target_type: str | None
) -> tuple[str, ...]:
    """Command that resumes the review with all its rubrics; empty if the artifact was read from stdin."""
    if name == STDIN:
        return ()
    names = ("judge", "budget_usd", "feedback", "allow_functions", "allow_unscored")
    options = option_words(request, (OPTIONS[option] for option in names))
    kind = () if target_type is None else ("--target-type", target_type)
    return ("gradebook", "review", name, "--rubrics", ",".join(rubrics), *kind, *options)


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
        answered = answered_row(defaults | row, name, {})
        if isinstance(answered, str):
            raise OutputsError((Fault(name, None, answered),))
        return answered
    return defaults | {"output": text}


def _is_conversation(row: Row) -> bool:
    """Whether a JSON object holds chat messages; `messages` of other forms are part of an artifact's content."""
    messages = row.get("messages")
    are_chat = isinstance(messages, list) and all(
        isinstance(message, dict) and "role" in message for message in messages
    )
    return bool(messages) and are_chat and has_conversations(row, {})


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

"""Verdicts on judged criteria with `unit: step`: the steps of each output labelled and counted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import StepMark, Taxonomy, describe_steps, score_steps
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.step_marks import marks_of
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_criterion, step_questions, step_unit
from gradebook.tasks.judging.session.session import JudgingSession
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.scoring.list_answers import ListAsker
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

STEP_VERDICT_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id")),
        pa.field("step_index", pa.int32(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "rationale", "quote")),
        pa.field("request_key", pa.string(), nullable=False),
    ]
)
MOST_QUOTES = 20  # of a verdict's evidence


@dataclass(slots=True)
class _Judged:
    """Steps of one output. marks: with quote and request key; fault: reason and request key of a missing reply."""

    unit: StepUnit
    marks: list[tuple[StepMark, str | None, str]] = field(default_factory=list)
    fault: tuple[str, str | None] | None = None


def score_steps_of(  # noqa: PLR0913 - the criterion, the shard and who is asked
    folder: RunFolder,
    criterion: Criterion,
    taxonomy: Taxonomy | None,
    shard: str,
    shard_index: int,
    lake: Lake,
    session: JudgingSession,
    timing: Timing,
) -> pa.Table:
    """Judge the steps of a shard's outputs: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the marks to the run's folder, as `STEP_VERDICT_SCHEMA`. Replies in the ledger are not asked for again.
    Raises as `JudgingSession.ask`; replies until then are in the journal.
    """
    asked = step_criterion(criterion, taxonomy)
    outputs = [_Judged(step_unit(asked, *case)) for case in read_cases(shard, with_steps=True)]
    asker = ListAsker(folder.run_id, lake, session, timing)
    scores = {level.id: level.score for level in criterion.ranked_levels}
    questions = [(each, list(step_questions(asked, each.unit, asker.judge_digest))) for each in outputs]
    answers = asker.ask(question for _, of_output in questions for question in of_output)
    for each, of_output in questions:
        for question in of_output:
            answer = answers[question.request_key]
            if answer.text is None:
                each.fault = each.fault or (answer.reason or "no_reply", question.request_key)
            else:
                each.marks += [(*marked, question.request_key) for marked in marks_of(answer.text, scores)]
    write_parquet(
        folder.step_verdicts_file(criterion.id, shard_index), _step_table(folder.run_id, criterion.id, outputs)
    )
    timing.row_count = len(outputs)
    penalties = asked.method.penalties or (taxonomy.severities if taxonomy else None)
    return _verdicts(folder.run_id, criterion, penalties, outputs)


def _step_table(run_id: str, criterion_id: str, outputs: Sequence[_Judged]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for each in outputs:
        place = {"run_id": run_id, "output_id": each.unit.output_id, "criterion_id": criterion_id}
        for mark, quote, key in each.marks:
            marked = mark._asdict() | {"step_index": int(mark.step), "quote": quote, "request_key": key}
            del marked["step"]
            rows.append(place | marked)
    return pa.Table.from_pylist(rows, schema=STEP_VERDICT_SCHEMA)


def _verdicts(
    run_id: str, criterion: Criterion, penalties: Mapping[str, float] | None, outputs: Sequence[_Judged]
) -> pa.Table:
    scores: list[float | None] = []
    reasons: list[str | None] = []
    keys: list[str | None] = []
    words: list[str | None] = []
    for each in outputs:
        reason, key = (each.unit.reason, None) if each.unit.reason else each.fault or (None, None)
        marks = [mark for mark, _, _ in each.marks]
        scores.append(None if reason else score_steps(marks, penalties))
        reasons.append(reason)
        keys.append(key)
        words.append(None if reason else _words(each, marks, penalties))
    count = len(outputs)
    return verdict_table(
        run_id,
        criterion,
        pa.array([each.unit.output_id for each in outputs], pa.string()),
        pa.nulls(count, pa.string()),
        pa.array(scores, pa.float64()),
        reasons=pa.array(reasons, pa.string()),
        evidence=pa.array([_evidence(each) for each in outputs], pa.string()),
        rationales=pa.array(words, pa.string()),
        request_keys=pa.array(keys, pa.string()),
    )


def _words(judged: _Judged, marks: Sequence[StepMark], penalties: Mapping[str, float] | None) -> str:
    """Rationale: "12 steps judged: step 3: tool / wrong_tool (major, -5)", and the steps that were not shown."""
    trajectory = judged.unit.case.trajectory
    left_out = [entry["left_out"] for entry in trajectory.shown if "left_out" in entry] if trajectory else []
    more = f"; not shown to the judge: {', '.join(left_out)}" if left_out else ""
    return f"{len(marks)} steps judged: {describe_steps(marks, penalties)}{more}"


def _evidence(judged: _Judged) -> str | None:
    """Quotes from the steps with errors, a JSON list; None if there are none."""
    quotes = [quote for mark, quote, _ in judged.marks if quote and mark.score < 1]
    return json.dumps(quotes[:MOST_QUOTES], ensure_ascii=False) if quotes else None

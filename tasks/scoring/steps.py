"""Verdicts on judged criteria with `unit: step`: the steps of each output labelled and counted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy, describe_steps, score_steps
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.judging.opinions.lists import QuotedMark, StepVote, step_lists, step_scale
from gradebook.tasks.judging.opinions.parts import combine_parts
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_criterion, step_unit
from gradebook.tasks.judging.settings.panels import Opinion, list_opinions, member_names
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.scoring.list_answers import ListJudges
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

_STEP = [
    *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id")),
    pa.field("step_index", pa.int32(), nullable=False),
]
STEP_VERDICT_SCHEMA = pa.schema(
    [
        *_STEP,
        pa.field("label", pa.string(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "rationale", "quote")),
        pa.field("request_key", pa.string(), nullable=False),
    ]
)
STEP_OPINION_SCHEMA = pa.schema(
    [
        *_STEP,
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        pa.field("label", pa.string()),  # null: the vote has no readable reply
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "rationale", "quote")),
        pa.field("reason", pa.string()),  # of a missing label
        pa.field("request_key", pa.string(), nullable=False),
    ]
)
MOST_QUOTES = 20  # of a verdict's evidence


@dataclass(frozen=True, slots=True)
class _Judged:
    """Steps of one output. votes: on each step, by its number; verdicts: what they come to."""

    unit: StepUnit
    votes: Mapping[int, dict[Opinion, StepVote]]
    verdicts: dict[int, StepVote] = field(default_factory=dict)

    @property
    def marked(self) -> list[QuotedMark]:
        """Marks of the steps that have one."""
        return [verdict.said for verdict in self.verdicts.values() if verdict.said]

    @property
    def fault(self) -> tuple[str, str | None] | None:
        """Reason of a missing score, and the request key of the missing reply."""
        if self.unit.reason:
            return self.unit.reason, None
        lost = (each for each in self.verdicts.values() if each.said is None)
        return next(((each.reason or "no_reply", each.request_key) for each in lost), None)


def score_steps_of(
    folder: RunFolder,
    criterion: Criterion,
    taxonomy: Taxonomy | None,
    shard: str,
    shard_index: int,
    judges: ListJudges,
) -> pa.Table:
    """Judge the steps of a shard's outputs: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the marks to the run's folder, as `STEP_VERDICT_SCHEMA`, and where there are several votes these too, as
    `STEP_OPINION_SCHEMA`. Replies in the ledger are not asked for again. Raises as `JudgingSession.ask`; replies until
    then are in the journal.
    """
    asked = step_criterion(criterion, taxonomy)
    units = (step_unit(asked, *case) for case in read_cases(shard, with_steps=True))
    outputs = [_Judged(unit, {step: {} for steps in unit.windows for step in steps}) for unit in units]
    lists = [each for output in outputs for each in step_lists(asked, output.unit, output.votes)]
    judges.ask_votes(criterion.id, step_scale(asked), lists)
    combined = iter(
        combine_parts(judges.judge, step_scale(asked), [votes for each in outputs for votes in each.votes.values()])
    )
    for each in outputs:
        each.verdicts.update({step: next(combined) for step in each.votes})
    write_parquet(
        folder.detail_file("step_verdicts", criterion.id, shard_index),
        _step_table(folder.run_id, criterion.id, outputs),
    )
    if len(list_opinions(judges.judge, criterion.id)) > 1:
        votes = _vote_table(folder.run_id, criterion.id, member_names(judges.judge), outputs)
        write_parquet(folder.detail_file("step_opinions", criterion.id, shard_index), votes)
    judges.timing.row_count = len(outputs)
    penalties = asked.method.penalties or (taxonomy.severities if taxonomy else None)
    return _verdicts(folder.run_id, criterion, penalties, outputs)


def _step_table(run_id: str, criterion_id: str, outputs: Sequence[_Judged]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, each, step, verdict)
        for each in outputs
        for step, verdict in each.verdicts.items()
        if verdict.said
    ]
    return pa.Table.from_pylist(rows, schema=STEP_VERDICT_SCHEMA)


def _vote_table(run_id: str, criterion_id: str, names: Sequence[str], outputs: Sequence[_Judged]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, each, step, vote)
        | {"judge": names[opinion.judge_index], "replicate": opinion.replicate, "reason": vote.reason}
        for each in outputs
        for step, votes in each.votes.items()
        for opinion, vote in votes.items()
    ]
    return pa.Table.from_pylist(rows, schema=STEP_OPINION_SCHEMA)


def _row(run_id: str, criterion_id: str, output: _Judged, step: int, vote: StepVote) -> dict[str, Any]:
    place = {"run_id": run_id, "output_id": output.unit.output_id, "criterion_id": criterion_id, "step_index": step}
    row: dict[str, Any] = place | {"request_key": vote.request_key}
    if vote.said is None:
        return row
    mark, quote = vote.said
    return row | {name: value for name, value in mark._asdict().items() if name != "step"} | {"quote": quote}


def _verdicts(
    run_id: str, criterion: Criterion, penalties: Mapping[str, float] | None, outputs: Sequence[_Judged]
) -> pa.Table:
    faults = [each.fault or (None, None) for each in outputs]
    scores = [None if each.fault else score_steps([mark for mark, _ in each.marked], penalties) for each in outputs]
    words = [None if each.fault else _words(each, penalties) for each in outputs]
    return verdict_table(
        run_id,
        criterion,
        pa.array([each.unit.output_id for each in outputs], pa.string()),
        pa.nulls(len(outputs), pa.string()),
        pa.array(scores, pa.float64()),
        reasons=pa.array([reason for reason, _ in faults], pa.string()),
        evidence=pa.array([_evidence(each) for each in outputs], pa.string()),
        rationales=pa.array(words, pa.string()),
        request_keys=pa.array([key for _, key in faults], pa.string()),
    )


def _words(judged: _Judged, penalties: Mapping[str, float] | None) -> str:
    """Rationale: "12 steps judged: step 3: tool / wrong_tool (major, -5)", the steps that were not shown, and those
    that judges label differently.
    """
    trajectory, marks = judged.unit.case.trajectory, [mark for mark, _ in judged.marked]
    left_out = [entry["left_out"] for entry in trajectory.shown if "left_out" in entry] if trajectory else []
    more = f"; not shown to the judge: {', '.join(left_out)}" if left_out else ""
    disputed = [str(step) for step, each in judged.verdicts.items() if each.is_disputed]
    more += f"; votes differ on steps {', '.join(disputed[:MOST_QUOTES])}" if disputed else ""
    more += f" and {len(disputed) - MOST_QUOTES} more" if len(disputed) > MOST_QUOTES else ""
    return f"{counted(len(marks), 'step')} judged: {describe_steps(marks, penalties)}{more}"


def _evidence(judged: _Judged) -> str | None:
    """Quotes from the steps with errors, a JSON list; None if there are none."""
    quotes = [quote for mark, quote in judged.marked if quote and mark.score < 1]
    return json.dumps(quotes[:MOST_QUOTES], ensure_ascii=False) if quotes else None

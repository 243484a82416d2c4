"""Method `judge` with `unit: step`: label the steps of each output and count the labels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import describe_steps, score_steps
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.step_marks import StepCriterion, step_criterion
from gradebook.rubrics.prompts.typed_parts import questions_of_step
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.opinions.parts import QuotedMark, StepVote, combine_parts, step_lists, step_scale
from gradebook.tasks.judging.replies.list_questions import StepUnit, step_unit
from gradebook.tasks.judging.settings.judge import Judge, Opinion
from gradebook.tasks.methods.list_answers import ListJudges, ListMethod
from gradebook.tasks.methods.method import ScoringSetup
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import ListCount, ListPlanner
from gradebook.tasks.planning.plan import Planning
from gradebook.tasks.system.files import write_parquet

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
        pa.field("reason", pa.string()),  # reason of a missing label
        pa.field("request_key", pa.string(), nullable=False),
    ]
)
USUAL_TOKENS_OF_STEP = 80.0  # reply tokens per step: a quote, a sentence, a label and an error
MOST_QUOTES = 20  # quotes in a verdict's evidence


@dataclass(frozen=True, slots=True)
class _JudgedOutput:
    """Steps of one output. votes: on each step, by its number; verdicts: combined votes, by step number."""

    unit: StepUnit
    votes: Mapping[int, dict[Opinion, StepVote]]
    verdicts: dict[int, StepVote] = field(default_factory=dict)

    @property
    def marked(self) -> list[QuotedMark]:
        """Marks of the steps, without unmarked steps."""
        return [verdict.said for verdict in self.verdicts.values() if verdict.said]

    @property
    def fault(self) -> tuple[str, str | None] | None:
        """Reason of a missing score, and the request key of the missing reply."""
        if self.unit.reason:
            return self.unit.reason, None
        unread = (verdict for verdict in self.verdicts.values() if verdict.said is None)
        return next(((verdict.reason or "no_reply", verdict.request_key) for verdict in unread), None)


class StepsScoring(ListMethod):
    """Labels of the steps of agents, counted by the rubric's taxonomy."""

    unrecorded = "no_step_verdicts: recorded replies hold no verdicts on steps"

    def count(self, planning: Planning, lists: ListPlanner, criterion: Criterion) -> dict[int, ListCount]:
        """Requests for the labels of all steps."""
        opinions = lists.judge.list_votes(criterion.id)
        counts = {opinion.judge_index: ListCount() for opinion in opinions}
        asked_criterion = step_criterion(criterion, planning.rubric.taxonomy)
        size = _steps_at_once(lists.judge, asked_criterion)
        for shard in planning.shards_of(criterion):
            units = (step_unit(asked_criterion, *case, size) for case in read_cases(shard, with_steps=True))
            part_lists = [
                step_list
                for unit in units
                for step_list in step_lists(
                    asked_criterion, unit, {step: {} for steps in unit.windows for step in steps}
                )
            ]
            lists.count_votes(
                opinions, step_scale(asked_criterion), part_lists, counts, tokens_of_part=USUAL_TOKENS_OF_STEP
            )
        return counts

    def score_by(
        self, judges: ListJudges, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int
    ) -> pa.Table:
        """Judge the steps of a shard's outputs.

        Details: the marks, as `STEP_VERDICT_SCHEMA`, and, if a judge votes several times, the votes, as
        `STEP_OPINION_SCHEMA`.
        """
        folder, taxonomy = setup.folder, setup.taxonomy
        asked_criterion = step_criterion(criterion, taxonomy)
        size = _steps_at_once(judges.judge, asked_criterion)
        units = (step_unit(asked_criterion, *case, size) for case in read_cases(shard, with_steps=True))
        outputs = [_JudgedOutput(unit, {step: {} for steps in unit.windows for step in steps}) for unit in units]
        lists = [
            step_list for output in outputs for step_list in step_lists(asked_criterion, output.unit, output.votes)
        ]
        judges.ask_votes(criterion.id, step_scale(asked_criterion), lists)
        votes_of_all = [votes for output in outputs for votes in output.votes.values()]
        combined = iter(combine_parts(judges.judge, step_scale(asked_criterion), votes_of_all))
        for output in outputs:
            output.verdicts.update({step: next(combined) for step in output.votes})
        marks = _step_table(folder.run_id, criterion.id, outputs)
        write_parquet(folder.detail_file("step_verdicts", criterion.id, shard_index), marks)
        if len(judges.judge.list_votes(criterion.id)) > 1:
            votes = _vote_table(folder.run_id, criterion.id, judges.judge.member_names, outputs)
            write_parquet(folder.detail_file("step_opinions", criterion.id, shard_index), votes)
        judges.timing.row_count = len(outputs)
        penalties = asked_criterion.method.penalties or (taxonomy.severities if taxonomy else None)
        return _verdicts(folder.run_id, criterion, penalties, outputs)


def _steps_at_once(judge: Judge, asked: StepCriterion) -> int:
    """Steps of one question; of a decision model as many as its requests take."""
    return judge.parts_at_once(asked.criterion.id, asked.method.steps_at_once, questions_of_step(asked))


def _step_table(run_id: str, criterion_id: str, outputs: Sequence[_JudgedOutput]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, output, step, verdict)
        for output in outputs
        for step, verdict in output.verdicts.items()
        if verdict.said
    ]
    return pa.Table.from_pylist(rows, schema=STEP_VERDICT_SCHEMA)


def _vote_table(run_id: str, criterion_id: str, names: Sequence[str], outputs: Sequence[_JudgedOutput]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, output, step, vote)
        | {"judge": names[opinion.judge_index], "replicate": opinion.replicate, "reason": vote.reason}
        for output in outputs
        for step, votes in output.votes.items()
        for opinion, vote in votes.items()
    ]
    return pa.Table.from_pylist(rows, schema=STEP_OPINION_SCHEMA)


def _row(run_id: str, criterion_id: str, output: _JudgedOutput, step: int, vote: StepVote) -> dict[str, Any]:
    identity = {"run_id": run_id, "output_id": output.unit.output_id, "criterion_id": criterion_id, "step_index": step}
    row: dict[str, Any] = identity | {"request_key": vote.request_key}
    if vote.said is None:
        return row
    mark, quote = vote.said
    return row | {name: value for name, value in mark._asdict().items() if name != "step"} | {"quote": quote}


def _verdicts(
    run_id: str, criterion: Criterion, penalties: Mapping[str, float] | None, outputs: Sequence[_JudgedOutput]
) -> pa.Table:
    faults = [output.fault or (None, None) for output in outputs]
    scores = [
        None if output.fault else score_steps([mark for mark, _ in output.marked], penalties) for output in outputs
    ]
    rationales = [None if output.fault else _rationale(output, penalties) for output in outputs]
    return verdict_table(
        run_id,
        criterion,
        pa.array([output.unit.output_id for output in outputs], pa.string()),
        pa.nulls(len(outputs), pa.string()),
        pa.array(scores, pa.float64()),
        reasons=pa.array([reason for reason, _ in faults], pa.string()),
        evidence=pa.array([_evidence(output) for output in outputs], pa.string()),
        rationales=pa.array(rationales, pa.string()),
        request_keys=pa.array([key for _, key in faults], pa.string()),
    )


def _rationale(judged: _JudgedOutput, penalties: Mapping[str, float] | None) -> str:
    """Rationale: "12 steps judged: step 3: tool / wrong_tool (major, -5)", the steps that were not shown, and those
    that judges label differently.
    """
    trajectory, marks = judged.unit.case.trajectory, [mark for mark, _ in judged.marked]
    left_out = [entry["left_out"] for entry in trajectory.shown if "left_out" in entry] if trajectory else []
    more = f"; not shown to the judge: {', '.join(left_out)}" if left_out else ""
    disputed = [str(step) for step, verdict in judged.verdicts.items() if verdict.is_disputed]
    more += f"; votes differ on steps {', '.join(disputed[:MOST_QUOTES])}" if disputed else ""
    more += f" and {len(disputed) - MOST_QUOTES} more" if len(disputed) > MOST_QUOTES else ""
    return f"{counted(len(marks), 'step')} judged: {describe_steps(marks, penalties)}{more}"


def _evidence(judged: _JudgedOutput) -> str | None:
    """Quotes from the steps with errors, a JSON list; None if there are none."""
    quotes = [quote for mark, quote in judged.marked if quote and mark.score < 1]
    return json.dumps(quotes[:MOST_QUOTES], ensure_ascii=False) if quotes else None

"""Verdicts on judged criteria with `unit: step`: the steps of each output labelled and counted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import StepMark, Taxonomy, describe_steps, score_steps
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.step_marks import StepCriterion, marks_of
from gradebook.tasks.judging.opinions.steps import QuotedMark, StepVerdict, StepVote, combine_votes, is_window_unsure
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_criterion, step_questions, step_unit
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    drawn_opinions,
    member_names,
    step_opinions,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.scoring.list_answers import ListAsker, ask_judges
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

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


@dataclass(slots=True)
class _Window:
    """Steps of one question, and the votes on them."""

    steps: tuple[int, ...]
    votes: list[StepVote] = field(default_factory=list)


@dataclass(slots=True)
class _Judged:
    """Steps of one output: asked about by windows, then judged."""

    unit: StepUnit
    windows: list[_Window]
    verdicts: list[StepVerdict] = field(default_factory=list)

    @property
    def marks(self) -> list[StepMark]:
        return [verdict.mark[0] for verdict in self.verdicts if verdict.mark]

    @property
    def fault(self) -> tuple[str, str | None] | None:
        """Reason of a missing score, and the request key of the missing reply."""
        if self.unit.reason:
            return self.unit.reason, None
        return next(
            ((each.reason or "no_reply", each.request_key) for each in self.verdicts if each.mark is None), None
        )


def score_steps_of(
    folder: RunFolder,
    criterion: Criterion,
    taxonomy: Taxonomy | None,
    shard: str,
    shard_index: int,
    judges: "StepJudges",
) -> pa.Table:
    """Judge the steps of a shard's outputs: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the marks to the run's folder, as `STEP_VERDICT_SCHEMA`, and where there are several votes these too, as
    `STEP_OPINION_SCHEMA`. Replies in the ledger are not asked for again. Raises as `JudgingSession.ask`; replies until
    then are in the journal.
    """
    asked = step_criterion(criterion, taxonomy)
    units = (step_unit(asked, *case) for case in read_cases(shard, with_steps=True))
    outputs = [_Judged(unit, [_Window(steps) for steps in unit.windows]) for unit in units]
    judges.ask(asked, outputs)
    for each in outputs:
        for window in each.windows:
            each.verdicts += combine_votes(judges.judge, criterion.ranked_levels, window.steps, window.votes)
    write_parquet(
        folder.step_verdicts_file(criterion.id, shard_index), _step_table(folder.run_id, criterion.id, outputs)
    )
    if len(judges.opinions(criterion.id)) > 1:
        votes = _vote_table(folder.run_id, criterion.id, member_names(judges.judge), outputs)
        write_parquet(folder.step_opinions_file(criterion.id, shard_index), votes)
    judges.timing.row_count = len(outputs)
    penalties = asked.method.penalties or (taxonomy.severities if taxonomy else None)
    return _verdicts(folder.run_id, criterion, penalties, outputs)


@dataclass(frozen=True, slots=True)
class StepJudges:
    """Judges of a run that label steps. sessions: of the judge's members, in order."""

    run_id: str
    judge: Judge
    sessions: tuple[Session, ...]
    lake: Lake
    timing: Timing

    def opinions(self, criterion_id: str) -> tuple[Opinion, ...]:
        """Votes that an output may need."""
        return step_opinions(self.judge, criterion_id)

    def ask(self, asked: StepCriterion, outputs: Sequence[_Judged]) -> None:
        """Add the votes on all windows; the second judge of a cascade is asked where the first one is unsure."""
        opinions = self.opinions(asked.criterion.id)
        if not isinstance(self.judge, CascadeSettings):
            self._add_votes(asked, outputs, opinions)
            return
        judge, levels = self.judge, asked.criterion.ranked_levels
        self._add_votes(asked, outputs, [each for each in opinions if each.judge_index == FIRST])
        unsure = [[is_window_unsure(judge, levels, window.votes) for window in each.windows] for each in outputs]
        self._add_votes(asked, outputs, [each for each in opinions if each.judge_index == THEN], unsure)

    def _add_votes(
        self,
        asked: StepCriterion,
        outputs: Sequence[_Judged],
        opinions: Sequence[Opinion],
        chosen: Sequence[Sequence[bool]] | None = None,
    ) -> None:
        """Ask for some votes. chosen: whether a window is asked about, by output; None: all are."""
        askers = {index: self._asker(index) for index in dict.fromkeys(each.judge_index for each in opinions)}
        by_judge: dict[int, list[ListQuestion]] = {index: [] for index in askers}
        places: list[tuple[_Window, Opinion, ListQuestion]] = []
        for row, opinion in drawn_opinions(self.judge, opinions, [each.unit.output_id for each in outputs]):
            each, digest = outputs[row], askers[opinion.judge_index].judge_digest
            questions = step_questions(asked, each.unit, digest, opinion.replicate)
            for place, question in enumerate(questions):
                if chosen is None or chosen[row][place]:
                    by_judge[opinion.judge_index].append(question)
                    places.append((each.windows[place], opinion, question))
        answers = ask_judges([(askers[index], questions) for index, questions in by_judge.items()])
        scores = {level.id: level.score for level in asked.criterion.ranked_levels}
        for window, opinion, question in places:
            answer = answers[question.request_key]
            marks = {} if answer.text is None else {int(each[0].step): each for each in marks_of(answer.text, scores)}
            reason = None if marks else answer.reason or "no_reply"
            window.votes.append(StepVote(opinion, question.request_key, marks, reason))

    def _asker(self, judge_index: int) -> ListAsker:
        session = self.sessions[judge_index]
        if not isinstance(session, JudgingSession):
            raise TypeError(f"found {type(session).__name__}, expected a judge that is asked over the network")
        return ListAsker(self.run_id, self.lake, session, self.timing)


def _step_table(run_id: str, criterion_id: str, outputs: Sequence[_Judged]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, each, verdict.step_index, verdict.mark) | {"request_key": verdict.request_key}
        for each in outputs
        for verdict in each.verdicts
        if verdict.mark
    ]
    return pa.Table.from_pylist(rows, schema=STEP_VERDICT_SCHEMA)


def _vote_table(run_id: str, criterion_id: str, names: Sequence[str], outputs: Sequence[_Judged]) -> pa.Table:
    rows = [
        _row(run_id, criterion_id, each, step, vote.marks.get(step))
        | {"judge": names[vote.opinion.judge_index], "replicate": vote.opinion.replicate}
        | {"reason": vote.reason, "request_key": vote.request_key}
        for each in outputs
        for window in each.windows
        for step in window.steps
        for vote in window.votes
    ]
    return pa.Table.from_pylist(rows, schema=STEP_OPINION_SCHEMA)


def _row(run_id: str, criterion_id: str, output: _Judged, step: int, marked: QuotedMark | None) -> dict[str, Any]:
    place = {"run_id": run_id, "output_id": output.unit.output_id, "criterion_id": criterion_id, "step_index": step}
    if marked is None:
        return place
    mark, quote = marked
    return place | {name: value for name, value in mark._asdict().items() if name != "step"} | {"quote": quote}


def _verdicts(
    run_id: str, criterion: Criterion, penalties: Mapping[str, float] | None, outputs: Sequence[_Judged]
) -> pa.Table:
    faults = [each.fault or (None, None) for each in outputs]
    scores = [None if each.fault else score_steps(each.marks, penalties) for each in outputs]
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
    trajectory, marks = judged.unit.case.trajectory, judged.marks
    left_out = [entry["left_out"] for entry in trajectory.shown if "left_out" in entry] if trajectory else []
    more = f"; not shown to the judge: {', '.join(left_out)}" if left_out else ""
    disputed = [str(each.step_index) for each in judged.verdicts if each.is_disputed]
    more += f"; votes differ on steps {', '.join(disputed[:MOST_QUOTES])}" if disputed else ""
    more += f" and {len(disputed) - MOST_QUOTES} more" if len(disputed) > MOST_QUOTES else ""
    return f"{len(marks)} steps judged: {describe_steps(marks, penalties)}{more}"


def _evidence(judged: _Judged) -> str | None:
    """Quotes from the steps with errors, a JSON list; None if there are none."""
    quotes = [each.mark[1] for each in judged.verdicts if each.mark and each.mark[1] and each.mark[0].score < 1]
    return json.dumps(quotes[:MOST_QUOTES], ensure_ascii=False) if quotes else None

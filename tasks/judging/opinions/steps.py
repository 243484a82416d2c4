"""Votes on the steps of an agent, window by window, and the marks they combine to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.taxonomy import StepMark
from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    combine_opinions,
    commonest_reason,
    find_unsure,
)
from gradebook.tasks.judging.settings.panels import FIRST, THEN, CascadeSettings, Judge, Opinion, PanelSettings

QuotedMark = tuple[StepMark, str | None]


@dataclass(frozen=True, slots=True)
class StepVote:
    """Reply of one vote about a window of steps. marks: each with its quote, by step; none: reason says why."""

    opinion: Opinion
    request_key: str
    marks: Mapping[int, QuotedMark] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """What the votes on a step come to. mark: of the first vote with the verdict's label; None: reason says why.

    request_key: of that vote, or of the first one without a mark. is_disputed: votes that count differ in the label.
    """

    step_index: int
    mark: QuotedMark | None
    request_key: str
    reason: str | None = None
    is_disputed: bool = False


def is_window_unsure(judge: CascadeSettings, levels: Sequence[Level], votes: Sequence[StepVote]) -> bool:
    """Whether the second judge of a cascade is asked about a window: the first one is unsure of one of its steps.

    votes: of the first judge; without any, as for a criterion that only the second judge is asked, it is.
    """
    if not votes:
        return True
    steps = sorted({step for vote in votes for step in vote.marks}) or [-1]
    when = judge.when
    unsure = find_unsure(
        _opinions(levels, steps, votes),
        len(levels),
        share_below=when.share_below,
        is_disagreement=when.disagreement,
        is_unscored=when.unscored,
    )
    return bool(unsure.any())


def combine_votes(
    judge: Judge, levels: Sequence[Level], steps: Sequence[int], votes: Sequence[StepVote]
) -> Iterator[StepVerdict]:
    """Verdict on each step of a window, as `combine_opinions` makes those on outputs; it has the score of its label.

    levels: of the criterion, worst first. votes: all that were asked; where a cascade asked its second judge, that
    judge's alone count.
    """
    if isinstance(judge, CascadeSettings) and any(vote.opinion.judge_index == THEN for vote in votes):
        votes = [vote for vote in votes if vote.opinion.judge_index != FIRST]
    if len(votes) == 1:
        yield from (_verdict_of_one(step, votes[0]) for step in steps)
        return
    aggregate = judge.aggregate if isinstance(judge, PanelSettings) else None
    judges = np.array([vote.opinion.judge_index if aggregate else 0 for vote in votes])
    opinions = _opinions(levels, steps, votes)
    combined = combine_opinions(opinions, judges, aggregate or "mean", len(levels))
    for row, step in enumerate(steps):
        labels = {vote.marks[step][0].label for vote in votes if step in vote.marks}
        speaker = int(combined.speakers[row])
        if speaker >= 0:
            vote = votes[speaker]
            yield StepVerdict(step, vote.marks[step], vote.request_key, None, len(labels) > 1)
            continue
        reason = NO_MAJORITY if combined.is_split[row] else commonest_reason([vote.reason for vote in votes])
        open_vote = next((vote for vote in votes if not vote.marks), votes[0])
        yield StepVerdict(step, None, open_vote.request_key, reason, len(labels) > 1)


def _verdict_of_one(step: int, vote: StepVote) -> StepVerdict:
    return StepVerdict(step, vote.marks.get(step), vote.request_key, vote.reason)


def _opinions(levels: Sequence[Level], steps: Sequence[int], votes: Sequence[StepVote]) -> Opinions:
    """Votes as arrays: (step, vote)."""
    place_of = {level.id: place for place, level in enumerate(levels)}
    places = [[place_of[vote.marks[step][0].label] if step in vote.marks else -1 for vote in votes] for step in steps]
    scores = [[vote.marks[step][0].score if step in vote.marks else np.nan for vote in votes] for step in steps]
    return Opinions(np.ones((len(steps), len(votes)), np.bool_), np.array(places, np.int64), np.array(scores))

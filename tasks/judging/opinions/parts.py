"""Votes on parts of outputs, claims, the steps of an agent or answers compared, and what they combine to.

Verdicts of claims and labels of steps count as levels: `combine_opinions` combines them as it does those of outputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Generic, TypeVar

import numpy as np

from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.taxonomy import StepMark
from gradebook.rubrics.prompts.claims import RANKED_VERDICTS, CheckedClaim, Claim, verdicts_of
from gradebook.rubrics.prompts.combine_opinions import NO_MAJORITY, Opinions, commonest_reason, find_unsure
from gradebook.rubrics.prompts.step_marks import StepCriterion, marks_of
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.tasks.judging.replies.list_questions import (
    AskedJudge,
    ClaimUnit,
    ListAnswer,
    ListQuestion,
    StepUnit,
    claim_packs,
    step_questions,
    verification_question,
)
from gradebook.tasks.judging.settings.judge import FIRST, Judge, Opinion, When

Said = TypeVar("Said")
Scale = Mapping[str, float]  # scores of the levels that a part may have, by id, worst first


@dataclass(frozen=True, slots=True)
class PartVote(Generic[Said]):
    """One vote on a part, or several combined. level, said: None without a usable reply; reason says why.

    said: content of the reply on the part. request_key: of that reply; without a level, of the first reply without one.
    is_disputed: the votes that were combined differ in the level. probabilities: of the levels, by id, as a decision
    model gives them; None: the level has probability 1.
    """

    level: str | None
    said: Said | None
    request_key: str
    reason: str | None = None
    is_disputed: bool = False
    probabilities: Mapping[str, float] | None = None


PartVotes = Mapping[Opinion, PartVote[Said]]  # on one part


@dataclass(frozen=True, slots=True)
class PartList(Generic[Said]):
    """Parts of an output that one question asks about, and the votes on each.

    question: by the judge that is asked, and the replicate. read: the votes of a usable reply.
    """

    output_id: str
    question: Callable[[AskedJudge, int], ListQuestion]
    read: Callable[[ListAnswer], Sequence[PartVote[Said]]]
    votes: Sequence[dict[Opinion, PartVote[Said]]]

    def add(self, opinion: Opinion, answer: ListAnswer) -> None:
        """Add a vote on each part."""
        unscored: PartVote[Said] = PartVote(None, None, answer.request_key, answer.reason or "no_reply")
        new_votes = [unscored] * len(self.votes) if answer.text is None else self.read(answer)
        for of_part, vote in zip(self.votes, new_votes, strict=True):
            of_part[opinion] = vote


def combine_parts(judge: Judge, scale: Scale, votes: Sequence[PartVotes[Said]]) -> list[PartVote[Said]]:
    """Combined vote for each part: the first vote with the combined level.

    Where a cascade's second judge was asked, it alone counts.
    """
    if not votes:
        return []
    counted = [{opinion: part_votes[opinion] for opinion in judge.deciding(part_votes)} for part_votes in votes]
    opinions = _opinions_of(counted)
    combined = judge.combine(opinions, _opinion_arrays(scale, counted, opinions), len(scale))
    combined_votes: list[PartVote[Said]] = []
    for of_part, speaker, is_split in zip(counted, combined.speakers, combined.is_split, strict=True):
        is_disputed = len({vote.level for vote in of_part.values() if vote.level is not None}) > 1
        if speaker >= 0:
            vote = of_part[opinions[speaker]]
            combined_votes.append(PartVote(vote.level, vote.said, vote.request_key, None, is_disputed))
            continue
        missing = [vote for vote in of_part.values() if vote.level is None]
        reason = NO_MAJORITY if is_split else commonest_reason([vote.reason for vote in missing])
        key = (missing or [*of_part.values()])[0].request_key
        combined_votes.append(PartVote(None, None, key, reason, is_disputed))
    return combined_votes


def is_unsure(when: When, scale: Scale, votes: Sequence[PartVotes[Said]]) -> bool:
    """Whether a cascade's second judge is asked: the first one is unsure of one of the parts.

    Only the first judge's votes are read; without any, as for a criterion that only the second is asked, it is.
    """
    first = [opinion for opinion in _opinions_of(votes) if opinion.judge_index == FIRST]
    if not first:
        return True
    return bool(find_unsure(_opinion_arrays(scale, votes, first), len(scale), **when.doubts).any())


def _opinions_of(votes: Sequence[PartVotes[Said]]) -> list[Opinion]:
    """Votes in an order that other parts do not affect, as the first one with a level is shown."""
    opinions = {opinion for of_part in votes for opinion in of_part}
    return sorted(opinions, key=lambda opinion: (opinion.judge_index, opinion.replicate))


def _opinion_arrays(scale: Scale, votes: Sequence[PartVotes[Said]], opinions: Sequence[Opinion]) -> Opinions:
    """Votes as arrays: (part, opinion)."""
    position_of: dict[str | None, int] = {None: -1} | {level: position for position, level in enumerate(scale)}
    positions = np.array(
        [
            [position_of[of_part[opinion].level] if opinion in of_part else -1 for opinion in opinions]
            for of_part in votes
        ],
        np.int64,
    )
    is_wanted = np.array([[opinion in of_part for opinion in opinions] for of_part in votes], np.bool_)
    scores = np.array([*scale.values(), np.nan])  # place -1 selects the NaN
    return Opinions(is_wanted, positions, scores[positions], _probabilities(scale, votes, opinions))


def _probabilities(scale: Scale, votes: Sequence[PartVotes[Said]], opinions: Sequence[Opinion]) -> Floats | None:
    """Probabilities of the levels: (part, opinion, level); None where no vote has any."""
    if all(vote.probabilities is None for of_part in votes for vote in of_part.values()):
        return None

    def row(vote: PartVote[Said] | None) -> list[float]:
        if vote is None or vote.level is None:
            return [0.0] * len(scale)
        given = {vote.level: 1.0} if vote.probabilities is None else vote.probabilities
        return [given.get(level, 0.0) for level in scale]

    return np.array([[row(of_part.get(opinion)) for opinion in opinions] for of_part in votes], np.float64)


QuotedMark = tuple[StepMark, str | None]
ClaimVote = PartVote[CheckedClaim]
StepVote = PartVote[QuotedMark]
CLAIM_SCALE: Scale = {verdict: float(verdict == "supported") for verdict in RANKED_VERDICTS}


def claim_lists(
    method: ClaimsMethod,
    criterion_id: str,
    unit: ClaimUnit,
    claims: Sequence[Claim],
    votes: Sequence[dict[Opinion, ClaimVote]],
    size: int,
) -> Iterator[PartList[CheckedClaim]]:
    """Lists of claims to verify in one question each. claims: verifiable ones; votes: of each claim, to be filled;
    size: claims of one question.
    """
    for indices in claim_packs(range(len(claims)), size):
        pack = [claims[index] for index in indices]
        ask = partial(verification_question, unit, pack, criterion_id, can_abstain=method.can_abstain)
        yield PartList(unit.output_id, ask, read_claims, [votes[index] for index in indices])


def read_claims(answer: ListAnswer) -> list[ClaimVote]:
    """Votes of a usable reply; an abstention is none."""
    return [
        PartVote(None, None, answer.request_key, "abstained")
        if claim_verdict.verdict == "abstained"
        else PartVote(
            claim_verdict.verdict, claim_verdict, answer.request_key, probabilities=claim_verdict.probabilities
        )
        for claim_verdict in verdicts_of(answer.text or "")
    ]


def step_scale(asked: StepCriterion) -> Scale:
    """Scores of a criterion's levels, worst first."""
    return {level.id: level.score for level in asked.criterion.ranked_levels}


def step_lists(
    asked: StepCriterion, unit: StepUnit, votes: Mapping[int, dict[Opinion, StepVote]]
) -> Iterator[PartList[QuotedMark]]:
    """Lists of steps to judge in one question each. votes: by step, to be filled."""
    scale = step_scale(asked)

    @cache  # all questions of a vote at once: the trajectory is digested once
    def questions(judge: AskedJudge, replicate: int) -> tuple[ListQuestion, ...]:
        return tuple(step_questions(asked, unit, judge, replicate))

    def ask(window_index: int, judge: AskedJudge, replicate: int) -> ListQuestion:
        return questions(judge, replicate)[window_index]

    def read(answer: ListAnswer) -> list[StepVote]:
        return [
            PartVote(mark.label, (mark, quote), answer.request_key, probabilities=probabilities)
            for mark, quote, probabilities in marks_of(answer.text or "", scale)
        ]

    for window_index, steps in enumerate(unit.windows):
        yield PartList(unit.output_id, partial(ask, window_index), read, [votes[step] for step in steps])

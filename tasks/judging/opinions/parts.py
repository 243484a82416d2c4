"""Votes on parts of outputs, claims, the steps of an agent or answers compared, and what they combine to.

Verdicts of claims and labels of steps count as levels: `combine_opinions` combines them as it does those of outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    combine_opinions,
    commonest_reason,
    find_unsure,
)
from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.settings.panels import FIRST, THEN, CascadeSettings, Judge, Opinion, PanelSettings

Said = TypeVar("Said")
Scale = Mapping[str, float]  # scores of the levels that a part may have, by id, worst first


@dataclass(frozen=True, slots=True)
class PartVote(Generic[Said]):
    """One vote on a part, or several combined. level, said: None without a usable reply; reason says why.

    said: what the reply has on the part. request_key: of that reply; without a level, of the first that lacks one.
    is_disputed: the votes that were combined differ in the level.
    """

    level: str | None
    said: Said | None
    request_key: str
    reason: str | None = None
    is_disputed: bool = False


PartVotes = Mapping[Opinion, PartVote[Said]]  # on one part


@dataclass(frozen=True, slots=True)
class PartList(Generic[Said]):
    """Parts of an output that one question asks about, and the votes on each.

    question: by the digest of the judge that is asked, and the replicate. read: the votes of a usable reply.
    """

    output_id: str
    question: Callable[[str, int], ListQuestion]
    read: Callable[[ListAnswer], Sequence[PartVote[Said]]]
    votes: Sequence[dict[Opinion, PartVote[Said]]]

    def add(self, opinion: Opinion, answer: ListAnswer) -> None:
        """Add a vote on each part."""
        lost: PartVote[Said] = PartVote(None, None, answer.request_key, answer.reason or "no_reply")
        found = [lost] * len(self.votes) if answer.text is None else self.read(answer)
        for of_part, vote in zip(self.votes, found, strict=True):
            of_part[opinion] = vote


def combine_parts(judge: Judge, scale: Scale, votes: Sequence[PartVotes[Said]]) -> list[PartVote[Said]]:
    """One vote for each part: the first of those with the level that the votes come to.

    Where a cascade's second judge was asked, it alone counts.
    """
    if not votes:
        return []
    counted = [_counted(judge, each) for each in votes]
    opinions = _opinions_of(counted)
    aggregate = judge.aggregate if isinstance(judge, PanelSettings) else None
    judges = np.array([opinion.judge_index if aggregate else 0 for opinion in opinions])
    combined = combine_opinions(_read(scale, counted, opinions), judges, aggregate or "mean", len(scale))
    found: list[PartVote[Said]] = []
    for of_part, speaker, is_split in zip(counted, combined.speakers, combined.is_split, strict=True):
        is_disputed = len({vote.level for vote in of_part.values() if vote.level is not None}) > 1
        if speaker >= 0:
            vote = of_part[opinions[speaker]]
            found.append(PartVote(vote.level, vote.said, vote.request_key, None, is_disputed))
            continue
        missing = [vote for vote in of_part.values() if vote.level is None]
        reason = NO_MAJORITY if is_split else commonest_reason([vote.reason for vote in missing])
        key = (missing or [*of_part.values()])[0].request_key
        found.append(PartVote(None, None, key, reason, is_disputed))
    return found


def is_unsure(judge: CascadeSettings, scale: Scale, votes: Sequence[PartVotes[Said]]) -> bool:
    """Whether a cascade's second judge is asked: the first one is unsure of one of the parts.

    Only the first judge's votes are read; without any, as for a criterion that only the second is asked, it is.
    """
    first = [opinion for opinion in _opinions_of(votes) if opinion.judge_index == FIRST]
    if not first:
        return True
    when = judge.when
    unsure = find_unsure(
        _read(scale, votes, first),
        len(scale),
        share_below=when.share_below,
        is_disagreement=when.disagreement,
        is_unscored=when.unscored,
    )
    return bool(unsure.any())


def _counted(judge: Judge, votes: PartVotes[Said]) -> PartVotes[Said]:
    if not isinstance(judge, CascadeSettings):
        return votes
    return {opinion: vote for opinion, vote in votes.items() if opinion.judge_index == THEN} or votes


def _opinions_of(votes: Sequence[PartVotes[Said]]) -> list[Opinion]:
    """Votes in an order that other parts do not affect, as the first one with a level is shown."""
    found = {opinion for of_part in votes for opinion in of_part}
    return sorted(found, key=lambda opinion: (opinion.judge_index, opinion.replicate))


def _read(scale: Scale, votes: Sequence[PartVotes[Said]], opinions: Sequence[Opinion]) -> Opinions:
    """Votes as arrays: (part, opinion)."""
    place_of: dict[str | None, int] = {None: -1} | {level: place for place, level in enumerate(scale)}
    places = np.array(
        [[place_of[of_part[each].level] if each in of_part else -1 for each in opinions] for of_part in votes], np.int64
    )
    is_wanted = np.array([[each in of_part for each in opinions] for of_part in votes], np.bool_)
    scores = np.array([*scale.values(), np.nan])  # place -1 selects the NaN
    return Opinions(is_wanted, places, scores[places])

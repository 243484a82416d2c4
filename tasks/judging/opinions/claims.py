"""Votes on claims of several judges or replicates, and the verdicts they combine to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.prompts.claims import RANKED_VERDICTS, CheckedClaim
from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    combine_opinions,
    commonest_reason,
    find_unsure,
)
from gradebook.tasks.judging.settings.panels import FIRST, THEN, CascadeSettings, Judge, Opinion, PanelSettings, When


@dataclass(frozen=True, slots=True)
class ClaimVote:
    """What one judge, or several together, said of a claim. said: None without a verdict, which has a reason then."""

    said: CheckedClaim | None
    reason: str | None
    request_key: str | None

    @property
    def place(self) -> int:
        """Place of the verdict among `RANKED_VERDICTS`, -1 for none."""
        return RANKED_VERDICTS.index(self.said.verdict) if self.said else -1


ClaimVotes = Mapping[Opinion, ClaimVote]  # on one claim


def read_vote(said: CheckedClaim, request_key: str) -> ClaimVote:
    """Vote of a usable reply; an abstention is none."""
    if said.verdict == "abstained":
        return ClaimVote(None, "abstained", request_key)
    return ClaimVote(said, None, request_key)


def combined_claims(judge: Judge, votes: Sequence[ClaimVotes]) -> list[ClaimVote]:
    """One vote for each claim, as judged criteria combine theirs: `combine_opinions`, with the verdicts as levels.

    Where a cascade's second judge was asked, it alone counts.
    """
    if not votes:
        return []
    counted = [_counted(judge, each) for each in votes]
    opinions = _opinions_of(counted)
    found = _read(counted, opinions)
    aggregate = judge.aggregate if isinstance(judge, PanelSettings) else None
    judges = np.array([opinion.judge_index if aggregate else 0 for opinion in opinions])
    combined = combine_opinions(found, judges, aggregate or "mean", len(RANKED_VERDICTS))
    verdicts = []
    for of_claim, speaker, is_split in zip(counted, combined.speakers, combined.is_split, strict=True):
        if speaker >= 0:
            verdicts.append(of_claim[opinions[speaker]])
            continue
        missing = [vote for vote in of_claim.values() if vote.said is None]
        reason = NO_MAJORITY if is_split else commonest_reason([vote.reason for vote in missing])
        verdicts.append(ClaimVote(None, reason, (missing or [*of_claim.values()])[0].request_key))
    return verdicts


def has_unsure(when: When, votes: Sequence[ClaimVotes]) -> bool:
    """Whether a cascade's second judge is asked, because its first is unsure of one of the claims.

    Only the first judge's votes are read.
    """
    first = [opinion for opinion in _opinions_of(votes) if opinion.judge_index == FIRST]
    unsure = find_unsure(
        _read(votes, first),
        len(RANKED_VERDICTS),
        share_below=when.share_below,
        is_disagreement=when.disagreement,
        is_unscored=when.unscored,
    )
    return bool(unsure.any())


def _counted(judge: Judge, votes: ClaimVotes) -> ClaimVotes:
    if not isinstance(judge, CascadeSettings):
        return votes
    return {opinion: vote for opinion, vote in votes.items() if opinion.judge_index == THEN} or votes


def _opinions_of(votes: Sequence[ClaimVotes]) -> list[Opinion]:
    return list(dict.fromkeys(opinion for of_claim in votes for opinion in of_claim))


def _read(votes: Sequence[ClaimVotes], opinions: Sequence[Opinion]) -> Opinions:
    """Votes as arrays: (claim, opinion)."""
    places = np.array(
        [[of_claim[each].place if each in of_claim else -1 for each in opinions] for of_claim in votes], np.int64
    )
    is_wanted = np.array([[each in of_claim for each in opinions] for of_claim in votes], np.bool_)
    scores = np.array([*(each == "supported" for each in RANKED_VERDICTS), np.nan])  # place -1 selects the NaN
    return Opinions(is_wanted, places, scores[places])

"""One verdict from several opinions (votes): replicates of a judge first, then the judges of a panel; escalation too.

An opinion is one judgment behind a verdict: of one judge, one replicate, one order of the levels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats

Aggregate = Literal["mean", "median", "majority", "all"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)
NO_MAJORITY = "no_majority"

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Opinions:
    """Opinions on some outputs for one criterion. The first three: (output, opinion)."""

    is_wanted: Flags  # whether such an opinion was requested; sampled outputs have more
    level_places: Places  # index of the level among the criterion's, from 0, the worst; -1 for none
    scores: Floats  # 0..1, NaN without a level
    probabilities: Floats | None = None  # (output, opinion, level); None: each is certain of its level

    @property
    def is_scored(self) -> Flags:
        """Opinions that gave a level."""
        return self.is_wanted & (self.level_places >= 0)


@dataclass(frozen=True, slots=True)
class Combined:
    """Verdicts on some outputs. All arrays: (output,), shares: (output, level)."""

    level_places: Places  # -1 if unscored
    scores: Floats  # NaN if unscored
    shares: Floats  # share of each level among all opinions that gave one; NaN if none did
    speakers: Places  # first opinion with the verdict's level, -1 if unscored
    is_split: Flags  # no level has a majority, though enough opinions have one


def combine_opinions(opinions: Opinions, judges: Places, aggregate: Aggregate, level_count: int) -> Combined:
    """Combine the opinions on each output into one verdict.

    judges: (opinion,), judge of each. Replicates of a judge are combined by their mean first, then the judges by
    `aggregate`: `mean` and `median` of the scores, with the lower median of the levels; `majority`, the level of more
    than half of all, including opinions without a level; `all`, the worst. If fewer than half gave a level, there is no
    verdict.
    """
    by_judge = [_columns(opinions, judges == judge) for judge in dict.fromkeys(judges.tolist())]
    if len(by_judge) == 1:
        combined, is_split = _merge(opinions, "mean", level_count)
    else:
        merged = [_merge(own, "mean", level_count)[0] for own in by_judge]
        wanted = np.stack([own.is_wanted.any(axis=1) for own in by_judge], axis=1)
        places, scores = (np.concatenate([getattr(one, name) for one in merged], axis=1) for name in _MERGED)
        combined, is_split = _merge(Opinions(wanted, places, scores), aggregate, level_count)
    level_places, scores = combined.level_places[:, 0], combined.scores[:, 0]
    has_level = (opinions.level_places == level_places[:, None]) & opinions.is_scored & (level_places >= 0)[:, None]
    speakers = np.where(has_level.any(axis=1), has_level.argmax(axis=1), -1)
    return Combined(level_places, scores, _level_shares(opinions, level_count), speakers, is_split)


def find_unsure(
    opinions: Opinions, level_count: int, *, share_below: float | None, is_disagreement: bool, is_unscored: bool
) -> Flags:
    """Whether one judge's opinions on each output are inconclusive: (output,).

    share_below: the most probable level (of its distribution, or of its replicates) has less than this share;
    is_disagreement: two of its replicates gave different levels; is_unscored: it gave no level.
    """
    combined, _ = _merge(opinions, "mean", level_count)
    has_none = combined.level_places[:, 0] < 0
    is_unsure = has_none if is_unscored else np.zeros_like(has_none)
    if is_disagreement:
        places = opinions.level_places
        lowest = np.where(opinions.is_scored, places, level_count).min(axis=1)
        is_unsure = is_unsure | (np.where(opinions.is_scored, places, lowest[:, None]) > lowest[:, None]).any(axis=1)
    if share_below is not None:
        largest = np.where(has_none, np.inf, _level_shares(opinions, level_count).max(axis=1))
        is_unsure = is_unsure | (largest < share_below)
    return is_unsure


def commonest_reason(reasons: Sequence[str | None]) -> str:
    """Most frequent reason of the opinions without a level, the first on ties; if the wording differs, the first
    wording.
    """
    given = [reason for reason in reasons if reason]
    kinds = Counter(reason.partition(":")[0] for reason in given)
    if not kinds:
        return NO_MAJORITY
    commonest = kinds.most_common(1)[0][0]
    return next(reason for reason in given if reason.partition(":")[0] == commonest)


_MERGED = ("level_places", "scores")


def _columns(opinions: Opinions, chosen: Flags) -> Opinions:
    return Opinions(opinions.is_wanted[:, chosen], opinions.level_places[:, chosen], opinions.scores[:, chosen])


def _merge(opinions: Opinions, aggregate: Aggregate, level_count: int) -> tuple[Opinions, Flags]:
    """Merge to one opinion per output. Returns also where a missing majority left none."""
    is_scored = opinions.is_scored
    scored_count, wanted_count = is_scored.sum(axis=1), opinions.is_wanted.sum(axis=1)
    is_enough = (scored_count > 0) & (2 * scored_count >= wanted_count)
    is_split = np.zeros_like(is_enough)
    if aggregate == "majority":
        places, scores, is_major = _majority(opinions, wanted_count, level_count)
        is_split = is_enough & ~is_major
        is_enough = is_enough & is_major
    elif aggregate == "all":
        places = np.where(is_scored, opinions.level_places, level_count).min(axis=1)
        scores = np.where(is_scored, opinions.scores, np.inf).min(axis=1)
    else:
        places = _lower_median(np.where(is_scored, opinions.level_places, level_count), scored_count)
        scores = _mean(opinions.scores, is_scored) if aggregate == "mean" else _median(opinions.scores, is_scored)
    merged = Opinions(
        (wanted_count > 0)[:, None],
        np.where(is_enough, places, -1)[:, None],
        np.where(is_enough, scores, np.nan)[:, None],
    )
    return merged, is_split


def _majority(opinions: Opinions, wanted_count: Places, level_count: int) -> tuple[Places, Floats, Flags]:
    counts = _one_hot(opinions, level_count).sum(axis=1)
    places = counts.argmax(axis=1)
    has_level = opinions.is_scored & (opinions.level_places == places[:, None])
    return places, _mean(opinions.scores, has_level), 2 * counts.max(axis=1) > wanted_count


def _one_hot(opinions: Opinions, level_count: int) -> Floats:
    """One-hot levels: (output, opinion, level)."""
    is_level: Flags = opinions.level_places[:, :, None] == np.arange(level_count)
    return np.where(is_level & opinions.is_scored[:, :, None], 1.0, 0.0)


def _level_shares(opinions: Opinions, level_count: int) -> Floats:
    is_scored = opinions.is_scored
    one_each = _one_hot(opinions, level_count)
    if opinions.probabilities is not None:
        one_each = np.where(is_scored[:, :, None], opinions.probabilities, 0.0)
    counts = is_scored.sum(axis=1)[:, None]
    shares: Floats = np.where(counts > 0, one_each.sum(axis=1) / np.maximum(counts, 1), np.nan)
    return shares


def _mean(values: Floats, is_counted: Flags) -> Floats:
    means: Floats = np.where(is_counted, values, 0.0).sum(axis=1) / np.maximum(is_counted.sum(axis=1), 1)
    return means


def _median(values: Floats, is_counted: Flags) -> Floats:
    ordered = np.sort(np.where(is_counted, values, np.inf), axis=1)
    last = np.maximum(is_counted.sum(axis=1), 1) - 1
    rows = np.arange(len(values))
    medians: Floats = (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2
    return medians


def _lower_median(places: Places, counts: Places) -> Places:
    """Middle index, for an even number the lower of the two. places: values that do not count are the largest."""
    ordered = np.sort(places, axis=1)
    lower: Places = ordered[np.arange(len(places)), np.maximum(counts - 1, 0) // 2]
    return lower

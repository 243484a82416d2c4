"""Verdict from several opinions (votes): first replicates of a judge, then judges of a panel; and escalation.

An opinion is one judgment: by one judge, in one replicate and one order of the levels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats

Aggregate = Literal["mean", "median", "majority", "all"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)
NO_MAJORITY = "no_majority"

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Opinions:
    """Opinions on outputs for one criterion. is_wanted, level_places, scores: (output, opinion)."""

    is_wanted: Flags  # whether the opinion was requested; sampled outputs have more opinions
    level_places: Indices  # index of the level, 0 for the worst; -1: no level
    scores: Floats  # 0..1, NaN without a level
    probabilities: Floats | None = None  # (output, opinion, level); None: probability 1 for the given level

    @property
    def is_scored(self) -> Flags:
        """Mask of opinions with a level, (output, opinion)."""
        return self.is_wanted & (self.level_places >= 0)


@dataclass(frozen=True, slots=True)
class Combined:
    """Verdicts on some outputs. All arrays: (output,), shares: (output, level)."""

    level_places: Indices  # -1 if unscored
    scores: Floats  # NaN if unscored
    shares: Floats  # share of each level among opinions with a level; NaN without any
    speakers: Indices  # first opinion with the verdict's level, -1 if unscored
    is_split: Flags  # whether no level has a majority, although enough opinions have a level


def combine_opinions(opinions: Opinions, judges: Indices, aggregate: Aggregate, level_count: int) -> Combined:
    """Combine the opinions on each output into one verdict.

    judges: (opinion,), judge of each. Replicates of a judge are combined by their mean first, then the judges by
    `aggregate`: `mean` and `median` of the scores, with the lower median of the levels; `majority`, the level of more
    than half of all opinions, with or without a level; `all`, the worst. If fewer than half have a level, there is no
    verdict.
    """
    by_judge = [_columns(opinions, judges == judge) for judge in dict.fromkeys(judges.tolist())]
    if len(by_judge) == 1:
        combined, is_split = _merge(opinions, "mean", level_count)
    else:
        merged = [_merge(judge_opinions, "mean", level_count)[0] for judge_opinions in by_judge]
        is_wanted = np.stack([judge_opinions.is_wanted.any(axis=1) for judge_opinions in by_judge], axis=1)
        level_indices, scores = (np.concatenate([getattr(one, name) for one in merged], axis=1) for name in _MERGED)
        combined, is_split = _merge(Opinions(is_wanted, level_indices, scores), aggregate, level_count)
    level_places, scores = combined.level_places[:, 0], combined.scores[:, 0]
    has_level = (opinions.level_places == level_places[:, None]) & opinions.is_scored & (level_places >= 0)[:, None]
    speakers = np.where(has_level.any(axis=1), has_level.argmax(axis=1), -1)
    return Combined(level_places, scores, level_shares(opinions, level_count), speakers, is_split)


def find_unsure(
    opinions: Opinions,
    level_count: int,
    *,
    share_below: float | None = None,
    margin_below: float | None = None,
    entropy_above: float | None = None,
    is_disagreement: bool = False,
    is_unscored: bool = False,
) -> Flags:
    """Mask of outputs on which one judge's opinions are inconclusive: (output,).

    share_below, margin_below, entropy_above: limits for the shares of the levels (in its distribution, or among its
    replicates), see `measure_doubt`. is_disagreement: replicates with different levels count; is_unscored: no level
    counts.
    """
    combined, _ = _merge(opinions, "mean", level_count)
    has_none = combined.level_places[:, 0] < 0
    is_unsure = has_none if is_unscored else np.zeros_like(has_none)
    if is_disagreement:
        level_indices = opinions.level_places
        lowest = np.where(opinions.is_scored, level_indices, level_count).min(axis=1)
        is_unsure = is_unsure | (np.where(opinions.is_scored, level_indices, lowest[:, None]) > lowest[:, None]).any(
            axis=1
        )
    if share_below is None and margin_below is None and entropy_above is None:
        return is_unsure
    doubt = measure_doubt(level_shares(opinions, level_count))
    for is_met in (
        doubt.share < (-np.inf if share_below is None else share_below),
        doubt.margin < (-np.inf if margin_below is None else margin_below),
        doubt.entropy > (np.inf if entropy_above is None else entropy_above),
    ):
        is_unsure = is_unsure | (is_met & ~has_none)
    return is_unsure


@dataclass(frozen=True, slots=True)
class Doubt:
    """Certainty of distributions over levels: (output,) each, NaN without a distribution.

    share: probability of the most probable level; margin: its lead over the next level; entropy: in bits, 0 if one
    level has probability 1.
    """

    share: Floats
    margin: Floats
    entropy: Floats


def measure_doubt(shares: Floats) -> Doubt:
    """Measure distributions. shares: (output, level), each row with sum 1, or NaN."""
    ranked = np.sort(np.column_stack([shares, np.zeros(len(shares))]), axis=1)
    logs = np.log2(np.where(shares > 0, shares, 1.0))
    return Doubt(ranked[:, -1], ranked[:, -1] - ranked[:, -2], -(shares * logs).sum(axis=1))


def commonest_reason(reasons: Sequence[str | None]) -> str:
    """Most frequent reason of the opinions without a level; the first reason on ties, in its first wording."""
    present = [reason for reason in reasons if reason]
    kinds = Counter(reason.partition(":")[0] for reason in present)
    if not kinds:
        return NO_MAJORITY
    commonest = kinds.most_common(1)[0][0]
    return next(reason for reason in present if reason.partition(":")[0] == commonest)


_MERGED = ("level_places", "scores")


def _columns(opinions: Opinions, chosen: Flags) -> Opinions:
    return Opinions(opinions.is_wanted[:, chosen], opinions.level_places[:, chosen], opinions.scores[:, chosen])


def _merge(opinions: Opinions, aggregate: Aggregate, level_count: int) -> tuple[Opinions, Flags]:
    """Merge to one opinion per output. Also returns a mask of outputs without a level for lack of a majority."""
    is_scored = opinions.is_scored
    scored_count, wanted_count = is_scored.sum(axis=1), opinions.is_wanted.sum(axis=1)
    is_enough = (scored_count > 0) & (2 * scored_count >= wanted_count)
    is_split = np.zeros_like(is_enough)
    if aggregate == "majority":
        level_indices, scores, is_major = _majority(opinions, wanted_count, level_count)
        is_split = is_enough & ~is_major
        is_enough = is_enough & is_major
    elif aggregate == "all":
        level_indices = np.where(is_scored, opinions.level_places, level_count).min(axis=1)
        scores = np.where(is_scored, opinions.scores, np.inf).min(axis=1)
    else:
        level_indices = _lower_median(np.where(is_scored, opinions.level_places, level_count), scored_count)
        scores = _mean(opinions.scores, is_scored) if aggregate == "mean" else _median(opinions.scores, is_scored)
    merged = Opinions(
        (wanted_count > 0)[:, None],
        np.where(is_enough, level_indices, -1)[:, None],
        np.where(is_enough, scores, np.nan)[:, None],
    )
    return merged, is_split


def _majority(opinions: Opinions, wanted_count: Indices, level_count: int) -> tuple[Indices, Floats, Flags]:
    counts = _one_hot(opinions, level_count).sum(axis=1)
    level_indices = counts.argmax(axis=1)
    has_level = opinions.is_scored & (opinions.level_places == level_indices[:, None])
    return level_indices, _mean(opinions.scores, has_level), 2 * counts.max(axis=1) > wanted_count


def _one_hot(opinions: Opinions, level_count: int) -> Floats:
    """One-hot levels: (output, opinion, level)."""
    is_level: Flags = opinions.level_places[:, :, None] == np.arange(level_count)
    return np.where(is_level & opinions.is_scored[:, :, None], 1.0, 0.0)


def level_shares(opinions: Opinions, level_count: int) -> Floats:
    """Share of each level among the opinions with a level: (output, level), NaN without any."""
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


def _lower_median(level_indices: Indices, counts: Indices) -> Indices:
    """Middle index, for an even number the lower one. level_indices: values that do not count are the largest."""
    ordered = np.sort(level_indices, axis=1)
    lower: Indices = ordered[np.arange(len(level_indices)), np.maximum(counts - 1, 0) // 2]
    return lower

"""Sums over units for agreement statistics, of a sample and of all its parts at once.

Units with the same ratings are one kind. A part of the sample states how often each kind is in it, and each sum is the
product of those counts with one unit's contribution.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.correlation import Pairs
from gradebook.rubrics.statistics.icc import OneWaySums, TwoWaySums

Places = NDArray[np.intp]
MOST_CELLS = 1_000_000  # of 8 bytes, in one product


@dataclass(frozen=True, slots=True)
class Kinds:
    """Units grouped by their ratings. levels, scores: (rater, kind), NaN where missing. counts: (kind,), units.

    of_units: (unit,), kind of each.
    """

    levels: Floats
    scores: Floats
    counts: NDArray[np.int64]
    of_units: NDArray[np.intp]

    def without_rater(self, place: int) -> "Kinds":
        """The same kinds without the ratings of one rater."""
        kept = np.arange(len(self.scores)) != place
        return Kinds(self.levels[kept], self.scores[kept], self.counts, self.of_units)


@dataclass(frozen=True, slots=True)
class LevelSums:
    """Sums for the statistics of levels, of each table.

    agreement: (table,), mean share of agreeing pairs. shares: (table, level). coincidences: (table, level, level).
    """

    agreement: Floats
    shares: Floats
    coincidences: Floats


def count_kinds(levels: Floats, scores: Floats) -> Kinds:
    """Group equal units. levels, scores: (rater, unit), NaN where missing, at the same places."""
    keys = np.zeros(levels.shape[1], dtype=np.int64)
    for row in (*levels, *(score for level, score in zip(levels, scores, strict=True) if not _is_same(level, score))):
        values, codes = np.unique(np.where(np.isnan(row), -np.inf, row), return_inverse=True)
        _, keys = np.unique(keys * values.size + codes, return_inverse=True)
    _, first, of_units, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return Kinds(levels[:, first], scores[:, first], counts, of_units.ravel())


def _is_same(levels: Floats, scores: Floats) -> bool:
    """Whether a rater's scores equal the levels' scores, as is the case without probabilities."""
    return levels is scores or np.array_equal(levels, scores, equal_nan=True)


# -------- all raters among themselves
def level_sums(kinds: Kinds, scale: Floats, weights: Floats) -> LevelSums:
    """Sums over units with any number of ratings. scale: (level,). weights: (table, kind), how often each is drawn."""
    counts = (kinds.levels[:, :, None] == scale).sum(axis=0).astype(np.float64)  # (kind, level)
    sizes = counts.sum(axis=1)
    is_rated, is_paired = sizes > 0, sizes > 1
    partners = np.maximum(sizes - 1.0, 1.0)
    agreeing = (counts * (counts - 1.0)).sum(axis=1) / (np.maximum(sizes, 1.0) * partners) * is_paired
    shares = counts / np.maximum(sizes, 1.0)[:, None]
    rated = np.maximum(weights @ is_rated, 1e-300)
    paired = np.maximum(weights @ is_paired, 1e-300)
    shared = counts * (is_paired / partners)[:, None]
    if len(weights) == 1 or counts.size * scale.size > MOST_CELLS:  # the product below needs a table per kind
        coincidences = np.stack([(shared * row[:, None]).T @ counts for row in weights])
    else:
        coincidences = np.tensordot(weights, shared[:, :, None] * counts[:, None, :], axes=1)
    diagonal = np.einsum("kl,lm->klm", weights @ shared, np.eye(scale.size))
    return LevelSums((weights @ agreeing) / paired, (weights @ shares) / rated[:, None], coincidences - diagonal)


def rater_shares(kinds: Kinds, scale: Floats, weights: Floats) -> Floats:
    """Share of each level in each rater's ratings: (table, rater, level), NaN of a rater without ratings."""
    counts = np.stack([weights @ (levels[:, None] == scale).astype(np.float64) for levels in kinds.levels], axis=1)
    totals = counts.sum(axis=2, keepdims=True)
    found: Floats = np.divide(counts, totals, out=np.full_like(counts, np.nan), where=totals > 0)
    return found


def one_way_sums(kinds: Kinds, weights: Floats) -> OneWaySums:
    """Sums over the units with two or more ratings."""
    chosen = (~np.isnan(kinds.scores)).sum(axis=0) > 1
    scores, drawn = _centred(kinds.scores)[:, chosen], weights[:, chosen]
    sizes = (~np.isnan(scores)).sum(axis=0).astype(np.float64)
    totals, squares = np.nansum(scores, axis=0), np.nansum(np.square(scores), axis=0)
    parts = (np.ones_like(sizes), sizes, np.square(sizes), totals, squares, np.square(totals) / np.maximum(sizes, 1.0))
    return OneWaySums(*(drawn @ part for part in parts))


def two_way_sums(kinds: Kinds, weights: Floats) -> TwoWaySums:
    """Sums over the units that every rater rated."""
    chosen = ~np.isnan(kinds.scores).any(axis=0)
    scores, drawn = _centred(kinds.scores)[:, chosen], weights[:, chosen]
    between = np.square(scores.sum(axis=0)) / len(scores)
    squares = np.square(scores).sum(axis=0)
    return TwoWaySums(drawn.sum(axis=1), drawn @ scores.T, drawn @ squares, drawn @ between)


def squared_differences(kinds: Kinds, weights: Floats) -> Floats:
    """Observed disagreement for `interval_alpha`, (table,), over the units with two or more ratings."""
    chosen = (~np.isnan(kinds.scores)).sum(axis=0) > 1
    scores = _centred(kinds.scores)[:, chosen]
    sizes = (~np.isnan(scores)).sum(axis=0)
    totals, squares = np.nansum(scores, axis=0), np.nansum(np.square(scores), axis=0)
    disagreement: Floats = 2.0 * (sizes * squares - np.square(totals)) / np.maximum(sizes - 1, 1)
    return weights[:, chosen] @ disagreement


def _centred(scores: Floats) -> Floats:
    """Scores minus their mean: sums of squares of equal scores are then equal, without rounding errors."""
    known_count = int(np.count_nonzero(~np.isnan(scores)))
    centred: Floats = scores - float(np.nansum(scores)) / max(1, known_count)
    return centred


# -------- one side against the other
@dataclass(frozen=True, slots=True)
class Sides:
    """Pairs of the first rater with each of the others, unit by unit. All arrays: (pair,), except counts (kind,)."""

    kinds: Places  # kind of the pair's unit
    own_levels: Floats
    other_levels: Floats
    own_scores: Floats
    other_scores: Floats
    counts: NDArray[np.int64]


def paired_sides(kinds: Kinds) -> Sides:
    """Pair the first rater of each kind of unit with each other rater."""
    others, places = np.nonzero(~np.isnan(kinds.scores[0]) & ~np.isnan(kinds.scores[1:]))
    return Sides(
        places,
        kinds.levels[0, places],
        kinds.levels[1:][others, places],
        kinds.scores[0, places],
        kinds.scores[1:][others, places],
        kinds.counts,
    )


def side_tables(sides: Sides, scale: Floats, weights: Floats) -> Floats:
    """Counts of the own level by the other one: (table, level, level)."""
    own, others = (np.searchsorted(scale, levels) for levels in (sides.own_levels, sides.other_levels))
    cells = _weighed(weights, sides.kinds, own * scale.size + others, scale.size**2)
    return cells.reshape(-1, scale.size, scale.size)


def side_level_sums(tables: Floats) -> LevelSums:
    """Sums as in `level_sums`, with each pair as a unit. tables: (table, level, level)."""
    totals = np.maximum(tables.sum(axis=(1, 2)), 1e-300)
    shares = (tables.sum(axis=1) + tables.sum(axis=2)) / (2.0 * totals[:, None])
    coincidences = tables + tables.transpose(0, 2, 1)
    return LevelSums(np.trace(tables, axis1=1, axis2=2) / totals, shares, coincidences)


def side_pairs(sides: Sides, weights: Floats) -> Pairs:
    """Distinct pairs of scores, with their frequency in each weighting."""
    scores = np.stack([sides.own_scores, sides.other_scores])
    distinct, places = np.unique(scores, axis=1, return_inverse=True)
    return Pairs(distinct[0], distinct[1], _weighed(weights, sides.kinds, places.ravel(), distinct.shape[1]))


def pair_two_way_sums(pairs: Pairs) -> TwoWaySums:
    """Sums as in `two_way_sums`, with each pair as a unit of two raters."""
    units = pairs.weights.sum(axis=1)
    own, others = _centred(np.stack([pairs.own, pairs.others]))
    of_raters = np.stack([pairs.sums(own), pairs.sums(others)], axis=1)
    squares = pairs.sums(np.square(own) + np.square(others))
    return TwoWaySums(units, of_raters, squares, pairs.sums(np.square(own + others) / 2.0))


def pair_one_way_sums(sums: TwoWaySums) -> OneWaySums:
    """Convert to one-way sums, which ignore who rated."""
    return OneWaySums(
        sums.units, 2.0 * sums.units, 4.0 * sums.units, sums.of_raters.sum(axis=1), sums.squares, sums.between
    )


def _weighed(weights: Floats, kinds: Places, cells: Places, cell_count: int) -> Floats:
    """How often each cell is drawn: (table, cell). kinds, cells: (pair,), kind and cell of each pair."""
    if len(weights) == 1 or weights.shape[1] * cell_count > MOST_CELLS:
        found = [np.bincount(cells, weights=row[kinds], minlength=cell_count) for row in weights]
        return np.stack(found).astype(np.float64)
    counts = np.bincount(kinds * cell_count + cells, minlength=weights.shape[1] * cell_count)
    return weights @ counts.reshape(weights.shape[1], cell_count).astype(np.float64)

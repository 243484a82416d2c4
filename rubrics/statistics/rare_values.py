"""Rare heavy values in means of values in a known range: how many there may be, seen and unseen.

Of n units none may show a kind of value that a share 1 - tail^(1/n) of further units has, with the confidence 1 - tail
(the rule of three of Hanley and Lippman-Hand 1983, exact). So an end of an interval is at least as far out as if such a
share lay at the bound of the values. Where a few units show heavy values, the end is that of Clopper and Pearson (1934)
on the two-point distribution with the mean, variance and skewness of the sample. For values that are two in fact, that
is the exact interval.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gradebook.rubrics.model.arrays import Floats

ALIKE = 16  # power of the sameness: values of half a normal distribution count as 2% alike, of a uniform one as 15%
ROUNDING = 1e-14  # of a variance, as a share of the mean square


@dataclass(frozen=True, slots=True)
class Shape:
    """Mean, standard deviation and skewness of the units of each sample, over n; skewness is NaN if all are equal.

    sameness: of values of 0 or more: 1 if all but those of 0 are equal, less the more they differ.
    """

    mean: Floats
    sd: Floats
    skewness: Floats
    sameness: Floats


def shape_of(values: Floats, count: Floats) -> Shape:
    """Shape of each sample. values: (..., unit), 0 where a sample lacks it; count: (...,), units that it has."""
    squares = values * values
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square = values.sum(axis=-1) / count, squares.sum(axis=-1) / count
        variance = square - mean * mean
        variance = np.where(variance <= ROUNDING * square, 0.0, variance)
        cube = np.einsum("...i,...i->...", squares, values) / count
        skewness = (cube - mean * (3.0 * variance + mean * mean)) / np.where(variance > 0.0, variance, np.nan) ** 1.5
        return Shape(mean, np.sqrt(variance), skewness, square * square / (mean * cube))


def unseen_share(units: ArrayLike, tail: ArrayLike) -> Floats:
    """Largest share of further units of a kind of which no unit is, with the confidence 1 - tail."""
    return np.asarray(1.0 - np.asarray(tail, dtype=np.float64) ** (1.0 / np.asarray(units, dtype=np.float64)))


def two_point_margin(shape: Shape, units: Floats, tail: ArrayLike, certainty: ArrayLike, *, is_upper: bool) -> Floats:
    """Distance from the mean to the end of its two-point interval, 0 or more; 0 if all units are equal.

    units: effective number. tail: probability beyond the end. certainty: 1 for the exact end, which holds for every
    number of heavy units; 0 for one that holds on average over these numbers, which suffices where the other part of a
    difference blurs them. So do different values, the more as neither point is rare.
    """
    from scipy.special import betaincinv

    with np.errstate(invalid="ignore"):
        root = np.sqrt(shape.skewness**2 + 4.0)
        share = (1.0 - shape.skewness / root) / 2.0  # of the higher point
        rarity = 1.0 - (4.0 * share * (1.0 - share)) ** 2
        jump = 0.5 + 0.5 * np.asarray(certainty) * np.fmax(rarity, shape.sameness**ALIKE)
        high, low = share * units, (1.0 - share) * units
        if is_upper:
            end = betaincinv(high + jump, low + 1.0 - jump, 1.0 - np.asarray(tail))
        else:
            end = betaincinv(high + 1.0 - jump, low + jump, tail)
        margin = shape.sd * root * np.abs(end - share)
    return np.asarray(np.where(np.isnan(margin), 0.0, margin))

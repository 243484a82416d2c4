"""The one decision on whether a difference is beyond chance, for every section and sentence; the luck of the best."""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.paired import adjust_for_many

SIGNIFICANT = 0.05


class Chance(StrEnum):
    """Direction of a difference beyond chance. WITHIN: it may be chance; UNKNOWN: too few values for a test."""

    ABOVE = "above"
    BELOW = "below"
    WITHIN = "within"
    UNKNOWN = "unknown"

    @property
    def is_beyond(self) -> bool:
        return self in (Chance.ABOVE, Chance.BELOW)


def is_significant(p: float | None) -> bool:
    """Whether p is small enough; an unknown p is not."""
    return p is not None and p <= SIGNIFICANT


def chance_of_p(difference: float, p: float | None) -> Chance:
    """Decide by a p, adjusted where several rows are tested together."""
    if p is None:
        return Chance.UNKNOWN
    if not is_significant(p) or not difference:
        return Chance.WITHIN
    return Chance.ABOVE if difference > 0 else Chance.BELOW


def chance_of_interval(low: float | None, high: float | None, by_chance: float = 0.0) -> Chance:
    """Decide by a 95% interval. by_chance: the value without a difference; ABOVE: the interval lies above it."""
    if low is None or high is None:
        return Chance.UNKNOWN
    if low <= by_chance <= high:
        return Chance.WITHIN
    return Chance.ABOVE if low > by_chance else Chance.BELOW


def p_of_interval(value: float, low: float, high: float, by_chance: float = 0.0, *, degrees: float) -> float:
    """Probability of a value under by_chance, from its 95% interval (Altman and Bland 2011), to adjust for many values.

    degrees: of freedom of Student's quantile in the interval. At most `SIGNIFICANT` exactly if by_chance is outside the
    interval: the end on its side gives the standard error.
    """
    distance = value - by_chance
    margin = value - low if distance > 0 else high - value
    if margin <= 0.0:
        return 1.0 if low <= by_chance <= high else 0.0
    from scipy.special import stdtr, stdtrit

    return float(2.0 * stdtr(degrees, -stdtrit(degrees, 1.0 - SIGNIFICANT / 2.0) * abs(distance) / margin))


def adjust_families(primary: ArrayLike, secondary: ArrayLike) -> tuple[Floats, Floats]:
    """Adjust p for all tests of a comparison: where nothing differs, the smallest is at most 0.05 in 5% of comparisons.

    primary: of the overall scores; secondary: of criteria and categories; NaN: no test. Benjamini and Hochberg within a
    family. A family counts only once it is beyond chance as a whole, by Holm (1979) over the two families' smallest
    adjusted p: the smaller one is doubled, and the other one is tested after it.
    """
    families = [adjust_for_many(each) for each in (primary, secondary)]
    least = [np.nanmin(each) if np.isfinite(each).any() else np.nan for each in families]
    if np.isnan(least).any():
        return families[0], families[1]
    first = 2.0 * min(least)
    whole = [first if each == min(least) else max(first, each) for each in least]
    found = [np.minimum(1.0, np.maximum(each, own)) for each, own in zip(families, whole, strict=True)]
    return found[0], found[1]


def luck_of_best(means: ArrayLike, standard_error: float) -> float:
    """Part of the highest mean that chance explains, at least 0: its fall if the means are shrunk to their own mean.

    means: (candidate,), no NaN. standard_error: of the difference of two of them. The shrinkage is that of empirical
    Bayes: true means have the variance of these, less that of their noise. A single candidate was not chosen: 0.
    """
    found = np.asarray(means, dtype=np.float64)
    if found.size < 2:
        return 0.0
    observed, noise = float(found.var(ddof=1)), standard_error**2 / 2.0
    share = min(1.0, noise / observed) if observed > 0 else 0.0
    return float(found.max() - found.mean()) * share

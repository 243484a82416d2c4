"""Suite of cases: shares of its strata and of the traffic that it stands for, and how well each item discriminates.

Items of a suite, cases or criteria: how well each one tells better models from worse ones.
Discrimination is the corrected item-total correlation over models: of the item's score with the sum of all other items
(Henrysson 1963). A negative one says that better models fail the item. An item's share of information is its covariance
with the total over the total's variance, which adds up to 1 over all items.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL, SPREAD_TOLERANCE, Interval, wilson
from gradebook.rubrics.statistics.significance import adjust_for_many

SEED = 20_261_126
DRAWS = 2_000
MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class StratumShare:
    """One stratum of a column. Shares are 0..1; difference: suite - traffic, with its 95% interval.

    p: of Fisher's exact test; p_adjusted: after Benjamini and Hochberg, over all strata of the comparison.
    """

    column: str
    stratum: str
    suite_count: int
    traffic_count: int
    suite_share: float
    traffic_share: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float

    @property
    def is_missing(self) -> bool:
        """Whether the traffic has the stratum and the suite does not."""
        return not self.suite_count and bool(self.traffic_count)


@dataclass(frozen=True, slots=True)
class ColumnDistance:
    """Total variation distance of a column: the share of the traffic, 0..1, that other strata have in the suite.

    by_chance: its mean for two random parts of all cases, of these sizes. p: share of such parts as far apart.
    """

    column: str
    distance: float
    by_chance: float
    p: float
    suite_n: int
    traffic_n: int


def compare_shares(
    columns: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> tuple[list[StratumShare], list[ColumnDistance]]:
    """Compare the strata of two sets of cases; strata that the suite lacks come first, then by difference.

    columns: strata of the suite's and the traffic's cases, each with at least one. Cases are taken as independent.
    """
    rows: list[StratumShare] = []
    distances = []
    for column, (suite, traffic) in columns.items():
        of_suite, of_traffic = Counter(suite), Counter(traffic)
        names = sorted({*of_suite, *of_traffic})
        counts = np.array([[of_suite[name], of_traffic[name]] for name in names], dtype=np.int64)
        rows += [_share(column, name, pair, counts.sum(axis=0)) for name, pair in zip(names, counts, strict=True)]
        distances.append(_distance(column, counts))
    adjusted = adjust_for_many([row.p for row in rows]).tolist()
    rows = [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    rows.sort(key=lambda row: (not row.is_missing, -abs(row.difference), row.column, row.stratum))
    return rows, distances


def difference_of_rates(count: int, n: int, other_count: int, other_n: int) -> Interval:
    """95% interval of the difference of two independent rates, first less second (Newcombe 1998, method 10)."""
    rate, other = count / n, other_count / other_n
    of_one, of_other = wilson(count, n), wilson(other_count, other_n)
    return Interval(
        rate - other - sqrt((rate - of_one.low) ** 2 + (of_other.high - other) ** 2),
        rate - other + sqrt((of_one.high - rate) ** 2 + (other - of_other.low) ** 2),
    )


def fisher_p(count: int, n: int, other_count: int, other_n: int) -> float:
    """Two-sided p of Fisher's exact test of two rates: the sum of the tables that are no more likely than this one."""
    from scipy.special import gammaln

    met = count + other_count
    possible = np.arange(max(0, met - other_n), min(n, met) + 1)
    logs = -(
        gammaln(possible + 1)
        + gammaln(n - possible + 1)
        + gammaln(met - possible + 1)
        + gammaln(other_n - met + possible + 1)
    )
    chances = np.exp(logs - logs.max())
    observed = chances[count - possible[0]]
    return float(min(1.0, chances[chances <= observed * (1 + 1e-7)].sum() / chances.sum()))


def cluster_vectors(vectors: NDArray[np.float64] | object, cluster_count: int) -> tuple[NDArray[np.int64], list[int]]:
    """Spherical k-means (Dhillon and Modha 2001), seeded: cluster of each vector, and each cluster's nearest vector.

    vectors: (n, dim) of unit length or zero, dense or sparse; n >= cluster_count. Empty clusters are left out.
    """
    rows: object = vectors
    count = rows.shape[0]  # type: ignore[attr-defined]
    rng = np.random.default_rng(SEED)
    chosen = [int(rng.integers(count))]
    nearest = _similar(rows, _dense(rows, chosen))[:, 0]
    while len(chosen) < cluster_count:
        far = np.maximum(1.0 - nearest, 0.0)
        if far.sum() <= 0:
            break
        chosen.append(int(rng.choice(count, p=far / far.sum())))
        nearest = np.maximum(nearest, _similar(rows, _dense(rows, chosen[-1:]))[:, 0])
    centres, codes = _dense(rows, chosen), np.full(count, -1)
    for _ in range(MOST_ROUNDS):
        assigned = _similar(rows, centres).argmax(axis=1)
        if np.array_equal(assigned, codes):
            break
        codes = assigned
        centres = np.array([_centre(rows, codes == code, centres[code]) for code in range(len(centres))])
    similar = _similar(rows, centres)
    used, codes = np.unique(codes, return_inverse=True)
    examples = [int(np.where(codes == index, similar[:, code], -2.0).argmax()) for index, code in enumerate(used)]
    return codes.astype(np.int64), examples


def _share(column: str, name: str, pair: NDArray[np.int64], sizes: NDArray[np.int64]) -> StratumShare:
    (of_suite, of_traffic), (suite_n, traffic_n) = pair.tolist(), sizes.tolist()
    interval = difference_of_rates(of_suite, suite_n, of_traffic, traffic_n)
    shares = of_suite / suite_n, of_traffic / traffic_n
    p = fisher_p(of_suite, suite_n, of_traffic, traffic_n)
    difference = shares[0] - shares[1]
    return StratumShare(column, name, of_suite, of_traffic, *shares, difference, interval.low, interval.high, p, p)


def _distance(column: str, counts: NDArray[np.int64]) -> ColumnDistance:
    """Distance of one column. counts: (stratum, 2), of the suite and of the traffic."""
    suite_n, traffic_n = counts.sum(axis=0).tolist()
    both = counts.sum(axis=1)
    drawn = np.random.default_rng(SEED).multivariate_hypergeometric(both, suite_n, DRAWS)
    by_chance = np.abs(drawn / suite_n - (both - drawn) / traffic_n).sum(axis=1) / 2
    distance = float(np.abs(counts[:, 0] / suite_n - counts[:, 1] / traffic_n).sum() / 2)
    p = (1 + int((by_chance >= distance - 1e-12).sum())) / (1 + DRAWS)
    return ColumnDistance(column, distance, float(by_chance.mean()), p, suite_n, traffic_n)


def _dense(rows: object, indices: Sequence[int]) -> Floats:
    selected = rows[indices]  # type: ignore[index]
    return np.asarray(selected.toarray() if hasattr(selected, "toarray") else selected, dtype=np.float64)


def _similar(rows: object, centres: Floats) -> Floats:
    return np.asarray(rows @ centres.T, dtype=np.float64)  # type: ignore[operator]


def _centre(rows: object, is_member: NDArray[np.bool_], earlier: Floats) -> Floats:
    """Direction of the sum of a cluster's vectors; the earlier one without any."""
    total = np.asarray(rows[np.flatnonzero(is_member)].sum(axis=0), dtype=np.float64).ravel()  # type: ignore[index]
    length = float(np.linalg.norm(total))
    return total / length if length > 0 else earlier


LEAST_MODELS = 5  # with four, a correlation of 0.9 is chance
ENOUGH = 0.95  # of the information


@dataclass(frozen=True, slots=True)
class Items:
    """Figures of each item: (item,). discrimination: -1..1, NaN of an item on which all models have one score.

    low, high: its 95% interval by Fisher's z, NaN of a discrimination of 1 or -1, where it would have no width; p:
    against 0, adjusted for all items (Benjamini and Hochberg). shares: of the information. enough_count: the fewest
    items that carry `ENOUGH` of it.
    """

    means: Floats
    discrimination: Floats
    low: Floats
    high: Floats
    p: Floats
    shares: Floats
    enough_count: int


def measure_items(scores: Floats) -> Items | None:
    """Measure all items. scores: (model, item), no NaN. None with fewer than `LEAST_MODELS` models or two items."""
    from scipy.special import ndtri, stdtr

    model_count, item_count = scores.shape
    if model_count < LEAST_MODELS or item_count < 2:
        return None
    centred = scores - scores.mean(axis=0)
    total = centred.sum(axis=1)
    rest = total[:, None] - centred
    sds = np.sqrt(np.square(centred).sum(axis=0)), np.sqrt(np.square(rest).sum(axis=0))
    is_known = (sds[0] > SPREAD_TOLERANCE) & (sds[1] > SPREAD_TOLERANCE)
    with np.errstate(divide="ignore", invalid="ignore"):
        discrimination = np.where(
            is_known, np.clip((centred * rest).sum(axis=0) / (sds[0] * sds[1]), -1.0, 1.0), np.nan
        )
        margin = float(ndtri((1.0 + LEVEL) / 2.0)) / np.sqrt(model_count - 3.0)
        z = np.where(np.abs(discrimination) < 1.0 - SPREAD_TOLERANCE, np.arctanh(discrimination), np.nan)
        low, high = np.tanh(z - margin), np.tanh(z + margin)
        t = np.abs(discrimination) * np.sqrt((model_count - 2.0) / (1.0 - discrimination * discrimination))
        p = np.where(is_known, 2.0 * stdtr(model_count - 2.0, -t), np.nan)
        variance = float(total @ total)
        shares = (
            (centred * total[:, None]).sum(axis=0) / variance if variance > SPREAD_TOLERANCE else np.zeros(item_count)
        )
    enough = np.cumsum(np.sort(shares)[::-1]) >= ENOUGH - SPREAD_TOLERANCE
    enough_count = int(enough.argmax()) + 1 if enough.any() else item_count
    return Items(scores.mean(axis=0), discrimination, low, high, adjust_for_many(p), shares, enough_count)

"""All figures of a comparison: pairs of scores and their joint statistics, or two means over different cases.

The difference of two means over different cases is by MOVER (Zou and Donner 2008).

Each end of the interval is as far from the difference as the ends of the two means' own intervals (`score_interval`)
say together: the root of the sum of their squares. So a side without a failure is not taken for certain, and scores
that hardly vary allow for rare bad ones. p is the level at which the interval ends at 0.
"""

from dataclasses import dataclass, fields, replace
from enum import Enum
from math import isnan, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.calibration import Influences, measure_influences
from gradebook.rubrics.statistics.distributions import pair_distributions
from gradebook.rubrics.statistics.intervals import (
    DIFFERENCES,
    LEVEL,
    SPREAD_TOLERANCE,
    Interval,
    Mean,
    measure_mean,
    unseen_share,
)
from gradebook.rubrics.statistics.means import (
    TIED,
    Moved,
    count_moved,
    measure_difference,
    measure_scores,
    score_interval_of,
)
from gradebook.rubrics.statistics.power import ALPHA, MOST_SIMULATED, POWER, Decided, simulate_power
from gradebook.rubrics.statistics.resampling import bootstrap_means, percentile_interval
from gradebook.rubrics.statistics.rules import RELEASE_MARGIN
from gradebook.rubrics.statistics.significance import count_shares, effect_of, is_significant, mcnemar, wilcoxon
from gradebook.rubrics.statistics.strata import (
    Strata,
    count_moved_by_stratum,
    measure_strata,
    pseudo_values,
    weighted_mean,
)

SEED = 20_261_101
FEW_AGAINST = 5  # moved cases: fewer can't show how heavy such moves are
SKEWED = 25.0  # t needs more cases than this times the squared skewness (Cochran 1977, section 2.15)
FEW_CLUSTERS = 30  # below this, 87 to 92%


@dataclass(frozen=True, slots=True)
class PairFigures:
    """Statistics of n pairs of scores; differences are B - A, None if there are too few pairs.

    case_count: number of clusters; moved_case_count: clusters whose pairs rose or fell in sum, risen_case_count and
    fallen_case_count: each alone. diff_low, diff_high: 95% interval of mean_diff, and p: its test, both by
    `measure_difference`; boot_low, boot_high: the percentile bootstrap's. p_wilcoxon: of signed ranks. p_adjusted: p
    after Benjamini and Hochberg, over the rows next to it; p_holm: after Holm. p_family: adjusted for all rows of the
    comparison, see `adjust_families`. effect_size: mean_diff over sd_diff, after Hedges. detectable_diff: detectable
    with this n at a power of 0.8 by the interval that decides, simulated of the overall score. release_power: of the
    overall score, the probability that an equal model meets the default release rule with such cases. dominance: the
    side whose distribution is nowhere worse. skewness: of the cases' differences. Rows of earlier versions lack
    p_family, p_holm, risen_case_count, fallen_case_count, skewness and release_power.
    """

    n: int
    case_count: int
    moved_case_count: int
    mean_a: float | None
    mean_b: float | None
    mean_diff: float | None
    diff_low: float | None
    diff_high: float | None
    boot_low: float | None
    boot_high: float | None
    sd_diff: float | None
    p: float | None
    p_wilcoxon: float | None
    p_adjusted: float | None
    effect_size: float | None
    detectable_diff: float | None
    better_count: int
    worse_count: int
    tied_count: int
    better_rate: float | None
    better_low: float | None
    better_high: float | None
    worse_rate: float | None
    worse_low: float | None
    worse_high: float | None
    tied_rate: float | None
    tied_low: float | None
    tied_high: float | None
    dominance: str
    risen_case_count: int | None
    fallen_case_count: int | None
    skewness: float | None
    p_family: float | None
    p_holm: float | None = None
    release_power: float | None = None


@dataclass(frozen=True, slots=True)
class OpenFigures:
    """Bounds of the figures over all pairs, whatever the missing scores are.

    p_missing: whether scores are missing equally often on both sides, by McNemar's exact test. least_diff, most_diff:
    bounds of mean_diff; least_low, most_high: of its interval, with all missing scores at the end that counts against,
    or for, side B. least_p, most_p: p at these two bounds.
    """

    p_missing: float | None
    least_diff: float | None
    most_diff: float | None
    least_low: float | None
    most_high: float | None
    least_p: float | None
    most_p: float | None


@dataclass(frozen=True, slots=True)
class PassFigures:
    """Numbers of passes on each side, over the pass_n pairs whose result is known on both; p_mcnemar: of the
    changes.
    """

    pass_n: int
    pass_rate_a: float | None
    pass_rate_b: float | None
    pass_diff: float | None
    pass_diff_low: float | None
    pass_diff_high: float | None
    gained_count: int
    lost_count: int
    p_mcnemar: float | None


@dataclass(frozen=True, slots=True)
class CorrectedFigures:
    """Means of both sides corrected by people's ratings, and B - A with its 95% interval.

    corrected_reason: why a figure is None.
    """

    corrected_a: float | None = None
    corrected_b: float | None = None
    corrected_diff: float | None = None
    corrected_diff_low: float | None = None
    corrected_diff_high: float | None = None
    corrected_reason: str | None = None


@dataclass(frozen=True, slots=True)
class WinFigures:
    """Pairs that B wins, loses, or ties: differences up to tie_margin, what the judge's noise alone exceeds in 5%.

    win_rate: of B, a tie counts as half, with its interval over cases.
    """

    win_count: int
    loss_count: int
    tie_count: int
    tie_margin: float
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None


def measure_wins(
    differences: Floats, clusters: NDArray[np.int64], tie_margin: float, strata: Strata | None = None
) -> WinFigures:
    """Count wins. differences, clusters: (pair,), no NaN. strata: by which the rate is weighted.

    The interval is that of a mean difference of 1 a win, -1 a loss and 0 a tie: where ties dominate, few losses say
    little of their share.
    """
    is_win, is_loss = differences > tie_margin, differences < -tie_margin
    wins = np.where(is_win, 1.0, np.where(is_loss, 0.0, 0.5))
    codes = shared_clusters(clusters)
    signs = 2.0 * wins - 1.0
    tested = measure_difference(_measure(signs, codes, strata), _count_moved(signs, codes, strata))
    counts = int(is_win.sum()), int(is_loss.sum())
    rate = _known(weighted_mean(wins, strata))
    low, high = (_known((1.0 + float(end)) / 2.0) for end in (tested.low, tested.high))
    return WinFigures(*counts, wins.size - sum(counts), tie_margin, rate, low, high)


_TEXT_FIELDS = {"dominance", "corrected_reason"}
ROW_FIGURES = tuple(field.name for field in fields(PairFigures) if field.name not in _TEXT_FIELDS)
CORRECTED_FIGURES = tuple(field.name for field in fields(CorrectedFigures) if field.name not in _TEXT_FIELDS)
WIN_FIGURES = tuple(field.name for field in fields(WinFigures))
PASS_FIGURES = tuple(field.name for field in fields(PassFigures))
OPEN_FIGURES = tuple(field.name for field in fields(OpenFigures))


def measure_pairs(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    clusters: NDArray[np.int64],
    *,
    bounds: Interval | None = DIFFERENCES,
    resample_count: int = 0,
    chosen_from: float = 1,
    strata: Strata | None = None,
) -> PairFigures:
    """Measure pairs of scores.

    scores_a, scores_b: (pair,), no NaN. clusters: (pair,), from 0, case of each. bounds: range of a difference.
    resample_count: of the bootstrap; 0: none. chosen_from: as in `measure_difference`, for each p and interval of the
    difference. strata: by which means, rates and their intervals are weighted. Signed ranks count pairs, and are
    unknown where cases were drawn at unlike rates.
    """
    of_a, of_b = (np.asarray(scores, dtype=np.float64) for scores in (scores_a, scores_b))
    differences = of_b - of_a
    codes = shared_clusters(clusters)
    mean = _measure(differences, codes, strata)
    moved = _count_moved(differences, codes, strata)
    tested = measure_difference(mean, moved, bounds, chosen_from=chosen_from)
    decided = Decided(mean.standard_error, mean.df, mean.unit_count, bounds)
    detectable = nan if mean.is_constant else decided.detectable(alpha=ALPHA / chosen_from)
    boot = _bootstrap(differences, codes, strata, resample_count, 1.0 - (1.0 - LEVEL) / chosen_from)
    shares = count_shares(differences, codes, strata)
    ranks = nan if _is_drawn(strata) else wilcoxon(differences, codes)
    return PairFigures(
        n=mean.n,
        case_count=mean.unit_count,
        moved_case_count=int(moved.risen + moved.fallen),
        mean_a=_known(weighted_mean(of_a, strata)),
        mean_b=_known(weighted_mean(of_b, strata)),
        mean_diff=_known(mean.mean),
        diff_low=_known(tested.low),
        diff_high=_known(tested.high),
        boot_low=_known(boot.low),
        boot_high=_known(boot.high),
        sd_diff=_known(mean.sd),
        p=_known(tested.p),
        p_wilcoxon=_known(np.minimum(1.0, chosen_from * ranks)),
        p_adjusted=None,
        effect_size=_known(effect_of(mean)),
        detectable_diff=_known(detectable),
        better_count=shares.better_count,
        worse_count=shares.worse_count,
        tied_count=shares.tied_count,
        **_rate("better", shares.better_share, shares.better_rate),
        **_rate("worse", shares.worse_share, shares.worse_rate),
        **_rate("tied", shares.tied_share, shares.tied_rate),
        dominance=pair_distributions(of_a, of_b, None if strata is None else strata.weights).dominance.value,
        risen_case_count=int(moved.risen),
        fallen_case_count=int(moved.fallen),
        skewness=_known(moved.skewness),
        p_family=None,
    )


def with_power(
    figures: PairFigures,
    differences: Floats,
    clusters: NDArray[np.int64],
    bounds: Interval,
    *,
    strata: Strata | None = None,
    **tests: float,
) -> PairFigures:
    """Figures with the power of the interval that decides, by `simulate_power`; as they are beyond `MOST_SIMULATED`
    cases, whose mean is normal.

    differences, clusters: (pair,). strata: as in `measure_pairs`, not drawn. tests: test_count and chosen_from.
    """
    weights = np.ones(differences.size) if strata is None else strata.weights
    sums = cluster_sums(weights * differences, clusters)[0]
    if not 2 <= sums.size <= MOST_SIMULATED:
        return figures
    by_case = np.clip(sums * sums.size / weights.sum(), bounds.low, bounds.high)
    power = simulate_power(by_case, RELEASE_MARGIN, np.random.default_rng(SEED), bounds=bounds, **tests)
    return replace(figures, detectable_diff=_known(power.detectable), release_power=_known(power.release_power))


def measure_open(
    differences: tuple[Floats, Floats],
    is_missing: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    clusters: NDArray[np.int64],
    *,
    bounds: Interval | None = DIFFERENCES,
    chosen_from: float = 1,
    strata: Strata | None = None,
) -> OpenFigures:
    """Measure pairs of which some lack a score.

    differences: lowest and highest possible one of each pair, (pair,). is_missing: whether A and B lack a score,
    (pair,). Other arguments as in `measure_pairs`.
    """
    codes = shared_clusters(clusters)
    least, most = (
        measure_difference(
            _measure(difference, codes, strata),
            _count_moved(difference, codes, strata),
            bounds,
            chosen_from=chosen_from,
        )
        for difference in differences
    )
    least_diff, most_diff = (weighted_mean(difference, strata) for difference in differences)
    p_missing = nan if _is_drawn(strata) else mcnemar(*is_missing, codes)
    figures = (p_missing, least_diff, most_diff, least.low, most.high, least.p, most.p)
    return OpenFigures(*(_known(figure) for figure in figures))


def without_change(figures: PairFigures) -> PairFigures:
    """Figures of pairs that have the same output with the same score: their difference is 0 for certain."""
    return replace(figures, diff_low=0.0, diff_high=0.0)


def measure_passes(
    is_passed_a: ArrayLike, is_passed_b: ArrayLike, clusters: NDArray[np.int64], strata: Strata | None = None
) -> PassFigures:
    """Measure passes; all (pair,), of pairs whose result is known on both sides. strata: as in `measure_pairs`."""
    of_a, of_b = (np.asarray(passed, dtype=np.float64) for passed in (is_passed_a, is_passed_b))
    codes = shared_clusters(clusters)
    changes = of_b - of_a
    mean = _measure(changes, codes, strata)
    tested = measure_difference(mean, _count_moved(changes, codes, strata))
    return PassFigures(
        pass_n=mean.n,
        pass_rate_a=_known(weighted_mean(of_a, strata)),
        pass_rate_b=_known(weighted_mean(of_b, strata)),
        pass_diff=_known(mean.mean),
        pass_diff_low=_known(tested.low),
        pass_diff_high=_known(tested.high),
        gained_count=int((of_b > of_a).sum()),
        lost_count=int((of_b < of_a).sum()),
        p_mcnemar=None if _is_drawn(strata) else _known(mcnemar(of_a, of_b, codes)),
    )


class Conflict(Enum):
    """How the mean and the count of wins disagree."""

    FEWER_BUT_LARGER = "they point in different directions: the fewer changes are the larger ones"
    MEAN_ALONE = "a difference of means beyond chance, none of ranks"
    RANKS_ALONE = "a difference of ranks beyond chance, none of means"


def conflict_of(figures: PairFigures) -> Conflict | None:
    """Conflict between the mean and the count of wins; None if they agree."""
    if figures.mean_diff is None or figures.p is None or figures.better_count == figures.worse_count:
        return None
    has_more_wins = figures.better_count > figures.worse_count
    if (figures.mean_diff > 0) != has_more_wins and abs(figures.mean_diff) > 1e-9:
        return Conflict.FEWER_BUT_LARGER
    ranks = figures.p_wilcoxon
    if ranks is None or is_significant(figures.p) == is_significant(ranks):
        return None
    return Conflict.RANKS_ALONE if is_significant(ranks) else Conflict.MEAN_ALONE


class Caution(Enum):
    """Why the interval and its p are wider than t's, or rough."""

    FEW_AGAINST = "few cases changed against the mean"
    UNSEEN = "the interval ends where rare values that so few cases can't show put it"
    SKEWED = "the differences are too skewed for t"
    FEW_CASES = "few cases, of several pairs each"


def caution_of(figures: PairFigures) -> Caution | None:
    """Reason why the interval and its p are wider than t's, or rough; None if they are neither."""
    risen, fallen = figures.risen_case_count, figures.fallen_case_count
    if figures.case_count >= 2 and figures.moved_case_count and risen is not None and fallen is not None:
        is_up = (figures.mean_diff or 0.0) > 0
        if (fallen if is_up else risen) < FEW_AGAINST:
            return Caution.FEW_AGAINST
        if _is_unseen(figures, is_up=is_up):
            return Caution.UNSEEN
    if figures.skewness is not None and figures.case_count < SKEWED * figures.skewness**2:
        return Caution.SKEWED
    return Caution.FEW_CASES if 2 <= figures.case_count < min(figures.n, FEW_CLUSTERS) else None


def _is_unseen(figures: PairFigures, *, is_up: bool) -> bool:
    """Whether the end of the interval towards 0 is that of cases that the comparison can't show, not that of t."""
    end, bound = (figures.diff_low, DIFFERENCES.low) if is_up else (figures.diff_high, DIFFERENCES.high)
    if end is None or figures.mean_diff is None:
        return False
    share = float(unseen_share(figures.case_count, (1.0 - LEVEL) / 2.0))
    return abs(end - figures.mean_diff - share * (bound - figures.mean_diff)) <= TIED


def shared_clusters(clusters: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Clusters; None if each has one pair, which is simpler and faster."""
    return clusters if np.bincount(clusters).max(initial=0) > 1 else None


def _is_drawn(strata: Strata | None) -> bool:
    return strata is not None and strata.is_drawn


def _measure(values: Floats, clusters: NDArray[np.int64] | None, strata: Strata | None) -> Mean:
    return measure_mean(values, clusters) if strata is None else measure_strata(values, strata, clusters)


def _count_moved(differences: Floats, clusters: NDArray[np.int64] | None, strata: Strata | None) -> Moved:
    if strata is not None:
        return count_moved_by_stratum(differences, strata, clusters)
    return count_moved(cluster_sums(differences, clusters)[0])


def _bootstrap(
    differences: Floats,
    clusters: NDArray[np.int64] | None,
    strata: Strata | None,
    resample_count: int,
    level: float,
) -> Interval:
    if strata is not None:
        differences, clusters = pseudo_values(differences, strata, clusters), None
    means = bootstrap_means(differences, resample_count=resample_count, seed=SEED, clusters=clusters)
    return percentile_interval(means, level)


def _rate(name: str, share: float, interval: Interval) -> dict[str, float | None]:
    return {
        f"{name}_rate": _known(share),
        f"{name}_low": _known(interval.low),
        f"{name}_high": _known(interval.high),
    }


def _known(value: float | Floats) -> float | None:
    return None if isnan(value) else float(value)


_MOST_QUANTILE = 7.5  # of the normal distribution: p of 6e-14, near the precision of a level
_OF_PAIRS: dict[str, Any] = {
    field.name: 0 if field.name.endswith("_count") and field.type is int else None for field in fields(PairFigures)
}


def measure_unpaired(
    scores_a: Floats,
    scores_b: Floats,
    cases_a: NDArray[np.int64],
    cases_b: NDArray[np.int64],
    *,
    bounds: Interval = DIFFERENCES,
) -> PairFigures:
    """Compare the means of two sets of scores whose cases may differ.

    scores_a: (n,), scores_b: (m,), no NaN. cases_a, cases_b: case of each, of one numbering; a case on both sides
    counts with the covariance of the two means. bounds: range of a difference; that of a score reaches up to 1. In the
    result n counts the outputs of both sides and case_count their cases; figures of pairs are None or 0. p and the
    interval are None with fewer than two cases on a side.

    With cases on both sides the interval is at least that of Welch's t (1947), CR2 with the degrees of freedom of Welch
    over those of each side, and allows for a share of cases that fell as far as they can, which so many can't show.
    """
    sides = measure_scores(scores_a, cases_a), measure_scores(scores_b, cases_b)
    means = [None if isnan(side.mean) else side.mean for side in sides]
    figures = _OF_PAIRS | {
        "n": scores_a.size + scores_b.size,
        "case_count": int(np.unique(np.concatenate([cases_a, cases_b])).size),
        "mean_a": means[0],
        "mean_b": means[1],
        "mean_diff": None if None in means else sides[1].mean - sides[0].mean,
        "dominance": pair_distributions(scores_a, scores_b).dominance.value,
    }
    if min(side.unit_count for side in sides) >= 2:
        by_case = measure_influences(scores_b, scores_a, cases_b, cases_a)
        figures |= UnpairedDifference(*sides, by_case, bounds).figures()
    return PairFigures(**figures)


@dataclass(frozen=True, slots=True)
class UnpairedDifference:
    """Means of two sides of two cases or more, and what each case adds to them. bounds: range of their difference."""

    of_a: Mean
    of_b: Mean
    by_case: Influences
    bounds: Interval

    @property
    def value(self) -> float:
        return self.of_b.mean - self.of_a.mean

    @property
    def error(self) -> float:
        return float(np.linalg.norm(self.by_case.own - self.by_case.others))

    @property
    def df(self) -> float:
        variances = [(side.standard_error**2, side.df) for side in (self.of_a, self.of_b)]
        squares = sum(variance**2 / df for variance, df in variances)
        return sum(variance for variance, _ in variances) ** 2 / squares if squares else min(df for _, df in variances)

    @property
    def correlation(self) -> float:
        """Correlation of the two means, through cases on both sides; 0 without such cases."""
        both = float(np.linalg.norm(self.by_case.own) * np.linalg.norm(self.by_case.others))
        return self.by_case.covariance / both if both > SPREAD_TOLERANCE**2 else 0.0

    def figures(self) -> dict[str, float | None]:
        low, high = self.ends((1.0 - LEVEL) / 2.0)
        detectable = self.detectable(max(self.value - low, high - self.value))
        return {"diff_low": low, "diff_high": high, "p": self.p(), "detectable_diff": _known(detectable)}

    def detectable(self, margin: float) -> float:
        """Difference that is beyond chance with a power of 0.8, if the interval ends so far from the mean; NaN above
        the range of a difference.
        """
        from scipy.special import ndtri

        effect = margin + float(ndtri(POWER)) * self.error
        return effect if self.error > SPREAD_TOLERANCE and effect <= self.bounds.high else nan

    def ends(self, tail: float) -> tuple[float, float]:
        """Both ends, each beyond the true difference with the probability tail."""
        scores = Interval(1.0 - self.bounds.high, 1.0)
        of_a, of_b = (score_interval_of(side, bounds=scores, level=1.0 - 2.0 * tail) for side in (self.of_a, self.of_b))
        down = self._margin(self.of_b.mean - of_b.low, of_a.high - self.of_a.mean)
        up = self._margin(of_b.high - self.of_b.mean, self.of_a.mean - of_a.low)
        if self.is_shared:
            from scipy.special import stdtrit

            of_t = -float(stdtrit(self.df, tail)) * self.error
            unseen = float(unseen_share(min(self.of_a.unit_count, self.of_b.unit_count), tail))
            down = max(down, of_t, unseen * (self.value - self.bounds.low))
            up = max(up, of_t, unseen * (self.bounds.high - self.value))
        interval = Interval(self.value - down, self.value + up).clipped(self.bounds)
        return interval.low, interval.high

    @property
    def is_shared(self) -> bool:
        return bool((self.by_case.has_own & self.by_case.has_others).any())

    def _margin(self, one: float, other: float) -> float:
        return sqrt(max(0.0, one**2 + other**2 - 2.0 * self.correlation * one * other))

    def p(self) -> float:
        """Level at which the interval ends at 0, or 6e-14 where it is smaller."""
        from scipy.optimize import brentq
        from scipy.special import ndtr

        def end(quantile: float) -> float:
            low, high = self.ends(float(ndtr(-quantile)))
            return low if self.value > 0 else -high

        if end(0.0) <= 0.0:
            return 1.0
        quantile = brentq(end, 0.0, _MOST_QUANTILE, xtol=1e-12) if end(_MOST_QUANTILE) < 0.0 else _MOST_QUANTILE
        return min(1.0, 2.0 * float(ndtr(-quantile)))

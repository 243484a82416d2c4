"""All figures of a comparison: pairs of scores, and their joint statistics."""

from dataclasses import dataclass, fields, replace
from enum import Enum
from math import isnan, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.bootstrap import bootstrap_means, percentile_interval
from gradebook.rubrics.statistics.chance import is_significant
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.distributions import pair_distributions
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, Interval, Mean, measure_mean
from gradebook.rubrics.statistics.mean_difference import TIED, Moved, count_moved, measure_difference
from gradebook.rubrics.statistics.paired import count_shares, effect_of, mcnemar, wilcoxon
from gradebook.rubrics.statistics.power import minimal_effect
from gradebook.rubrics.statistics.rare_values import unseen_share
from gradebook.rubrics.statistics.score_intervals import measure_scores, score_interval_of
from gradebook.rubrics.statistics.strata import (
    Strata,
    count_moved_by_stratum,
    measure_strata,
    stand_in_values,
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
    with this n at a power of 0.8. dominance: the side whose distribution is nowhere worse. skewness: of the cases'
    differences. Rows of earlier versions lack p_family, p_holm, risen_case_count, fallen_case_count and skewness.
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
    """Count wins. differences, clusters: (pair,), no NaN. strata: by which the rate is weighted."""
    is_win, is_loss = differences > tie_margin, differences < -tie_margin
    wins = np.where(is_win, 1.0, np.where(is_loss, 0.0, 0.5))
    codes = _shared(clusters)
    interval = score_interval_of(
        measure_scores(wins, codes) if strata is None else measure_strata(wins, strata, codes, of_scores=True)
    )
    counts = int(is_win.sum()), int(is_loss.sum())
    rate = _known(weighted_mean(wins, strata))
    return WinFigures(*counts, wins.size - sum(counts), tie_margin, rate, _known(interval.low), _known(interval.high))


_WORDS = {"dominance", "corrected_reason"}
ROW_FIGURES = tuple(field.name for field in fields(PairFigures) if field.name not in _WORDS)
CORRECTED_FIGURES = tuple(field.name for field in fields(CorrectedFigures) if field.name not in _WORDS)
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
    difference. strata: by which means, rates and their intervals are weighted; signed ranks are then unknown.
    """
    of_a, of_b = (np.asarray(scores, dtype=np.float64) for scores in (scores_a, scores_b))
    differences = of_b - of_a
    codes = _shared(clusters)
    mean = _measure(differences, codes, strata)
    moved = _count_moved(differences, codes, strata)
    tested = measure_difference(mean, moved, bounds, chosen_from=chosen_from)
    detectable = nan if mean.is_constant else minimal_effect(mean.standard_error, mean.df)
    boot = _bootstrap(differences, codes, strata, resample_count, 1.0 - (1.0 - LEVEL) / chosen_from)
    shares = count_shares(differences, codes, strata)
    ranks = wilcoxon(differences, codes) if strata is None else nan
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
    codes = _shared(clusters)
    least, most = (
        measure_difference(
            _measure(each, codes, strata), _count_moved(each, codes, strata), bounds, chosen_from=chosen_from
        )
        for each in differences
    )
    least_diff, most_diff = (weighted_mean(each, strata) for each in differences)
    p_missing = nan if strata is not None else mcnemar(*is_missing, codes)
    figures = (p_missing, least_diff, most_diff, least.low, most.high, least.p, most.p)
    return OpenFigures(*(_known(each) for each in figures))


def without_change(figures: PairFigures) -> PairFigures:
    """Figures of pairs that have the same output with the same score: their difference is 0 for certain."""
    return replace(figures, diff_low=0.0, diff_high=0.0)


def measure_passes(
    is_passed_a: ArrayLike, is_passed_b: ArrayLike, clusters: NDArray[np.int64], strata: Strata | None = None
) -> PassFigures:
    """Measure passes; all (pair,), of pairs whose result is known on both sides. strata: as in `measure_pairs`."""
    of_a, of_b = (np.asarray(passed, dtype=np.float64) for passed in (is_passed_a, is_passed_b))
    codes = _shared(clusters)
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
        p_mcnemar=None if strata is not None else _known(mcnemar(of_a, of_b, codes)),
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


def _shared(clusters: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Clusters; None if each has one pair, which is simpler and faster."""
    return clusters if np.bincount(clusters).max(initial=0) > 1 else None


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
        differences, clusters = stand_in_values(differences, strata, clusters), None
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

"""Power of a comparison with n values, and the n it needs: exact for t, simulated for the interval that decides."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan, nan, sqrt

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval, measure_means, unseen_share
from gradebook.rubrics.statistics.means import count_moved, lower_ends

POWER = 0.8
ALPHA = 0.05
MOST_N = 10**9
MOST_EXACT_DF = 1_000_000
SHARES_SUMMED = 10_000  # of the distribution of the standard error
_FEWER_SHARES = 1_000  # of the same, where the power is computed many times
DRAW_COUNT = 400  # simulated comparisons
MOST_DRAWN = 4_000  # cases of a simulated comparison; with more, the interval is that of t
MOST_SIMULATED = 1_000  # cases of a comparison whose own power is simulated
MOST_SLOPE = 50.0  # with it, nearly all cases have the largest difference
SLOPE_STEPS = 6
_CLOSE_N = 1.03  # ratio of two numbers of cases that a simulation does not tell apart


def power_of(effect: float, sd: float, n: int, *, alpha: float = ALPHA, is_paired: bool = True) -> float:
    """Probability (0..1) that a two-sided t test of level alpha detects a true mean difference.

    effect: the difference, in the unit of sd. sd: > 0; paired: of the differences, unpaired: of the values in each
    group. n: pairs, or values in each group. NaN if n is below 2 or sd is not positive. Cohen (1988), chapter 2.
    """
    if n < 2 or not sd > 0:
        return nan
    return _power(abs(effect) / _standard_error(sd, n, is_paired), _df(n, is_paired), alpha)


def minimal_effect(standard_error: float, df: float, *, power: float = POWER, alpha: float = ALPHA) -> float:
    """Smallest true difference that a two-sided t test detects with this power.

    standard_error: of the mean difference, clustered if applicable. NaN if it is NaN or not positive, or if df is below
    1.
    """
    if isnan(standard_error) or standard_error <= 0 or not df >= 1:
        return nan
    return standard_error * _solve(lambda noncentrality: _power(noncentrality, df, alpha), power)


def detectable_effect(
    sd: float, n: int, *, power: float = POWER, alpha: float = ALPHA, is_paired: bool = True
) -> float:
    """Smallest true difference that n pairs, or n values in each group, detect with this power; arguments as in
    `power_of`.
    """
    if n < 2 or not sd > 0:
        return nan
    return minimal_effect(_standard_error(sd, n, is_paired), _df(n, is_paired), power=power, alpha=alpha)


def needed_n(
    effect: float, sd: float, *, power: float = POWER, alpha: float = ALPHA, is_paired: bool = True
) -> int | None:
    """Smallest number of pairs, or of values in each group, that detects a true difference with this power.

    None if the effect or the sd is not positive, or if more than `MOST_N` would be needed.
    """
    if not abs(effect) > 0 or not sd > 0:
        return None
    return _least_n(lambda n: power_of(effect, sd, n, alpha=alpha, is_paired=is_paired), power)


@dataclass(frozen=True, slots=True)
class Margin:
    """Margin of a gate: a difference that it rules out below; is_both: above too (equivalence)."""

    margin: float
    is_both: bool = False

    def power_of(self, effect: float, sd: float, n: int, *, alpha: float = ALPHA, is_paired: bool = True) -> float:
        """Probability (0..1) that the two-sided interval of level 1 - alpha lies above -margin, or within it.

        effect: the true difference, above 0 where B is better. Others: as in `power_of`. Two one-sided t tests
        (Schuirmann 1987), averaged over the standard error, whose square has the chi-squared distribution.
        """
        from scipy.special import chdtri, nctdtr, ndtr, stdtrit

        if n < 2 or not sd > 0:
            return nan
        error, df = _standard_error(sd, n, is_paired), _df(n, is_paired)
        critical = float(stdtrit(df, 1 - alpha / 2))
        if not self.is_both:
            above = (effect + self.margin) / error
            share = float(ndtr(critical - above) if df > MOST_EXACT_DF else nctdtr(df, above, critical))
            return 1.0 - (0.0 if isnan(share) else share)  # NaN: under 1e-15, too small for its series
        ranks = (np.arange(SHARES_SUMMED) + 0.5) / SHARES_SUMMED
        reach = self.margin / error - critical * np.sqrt(chdtri(df, ranks) / df)
        within = ndtr(reach - effect / error) - ndtr(-reach - effect / error)
        return float(np.maximum(within, 0.0).mean())

    def needed_n(
        self, effect: float, sd: float, *, power: float = POWER, alpha: float = ALPHA, is_paired: bool = True
    ) -> int | None:
        """Smallest number of pairs, or of values in each group, with this power.

        None if the true difference lies outside the margin, or if more than `MOST_N` would be needed.
        """
        if not sd > 0 or effect <= -self.margin or (self.is_both and effect >= self.margin):
            return None
        return _least_n(lambda n: self.power_of(effect, sd, n, alpha=alpha, is_paired=is_paired), power)


def shown_margin(
    differences: Floats, n: int, rng: np.random.Generator, *, power: float = POWER, chosen_from: float = 1
) -> float:
    """Smallest M for which the gate not_worse_by(M) passes an equal model with this power, with n cases.

    differences: of past cases, (case,); their signs are drawn anew, as those of an equal model. The interval is the one
    that decides in comparisons; above `MOST_DRAWN` cases it narrows with their root. NaN without two cases.
    chosen_from: as in `measure_difference`.
    """
    how = {"power": power, "chosen_from": chosen_from}
    if n < 2 or differences.size < 2:
        return nan
    if n > MOST_DRAWN:
        return shown_margin(differences, MOST_DRAWN, rng, **how) * sqrt(MOST_DRAWN / n)
    drawn = rng.choice(np.abs(differences), (DRAW_COUNT, n)) * rng.choice((-1.0, 1.0), (DRAW_COUNT, n))
    lows = lower_ends(measure_means(drawn), count_moved(drawn), level=1.0 - ALPHA / chosen_from)
    return -float(np.quantile(lows, 1.0 - power))


def cases_to_show(
    differences: Floats, margin: float, rng: np.random.Generator, *, power: float = POWER, chosen_from: float = 1
) -> int | None:
    """Number of cases with which the gate not_worse_by(margin) passes an equal model with this power, within 3%.

    By `shown_margin`, and by t above `MOST_DRAWN` cases. None without two past cases. Others: as in `shown_margin`.
    """
    how = {"power": power, "chosen_from": chosen_from}
    if differences.size < 2:
        return None
    low, high = 2, MOST_DRAWN
    if shown_margin(differences, high, rng, **how) > margin:
        sd = float(np.sqrt(np.square(differences).mean()))
        return Margin(margin).needed_n(0.0, sd, power=power, alpha=ALPHA / chosen_from)
    while high > low * _CLOSE_N and high - low > 1:
        middle = round(sqrt(low * high))
        low, high = (low, middle) if shown_margin(differences, middle, rng, **how) <= margin else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class SimulatedPower:
    """Power of a comparison with these cases, simulated by the interval that decides.

    detectable: least true difference that is beyond chance with the power; NaN where the observed sizes of differences
    reach none. release_power: probability that an equal model meets not_worse_by(margin).
    """

    detectable: float
    release_power: float


def simulate_power(
    differences: Floats,
    margin: float,
    rng: np.random.Generator,
    *,
    bounds: Interval = DIFFERENCES,
    test_count: float = 1,
    chosen_from: float = 1,
    power: float = POWER,
) -> SimulatedPower:
    """Simulate `DRAW_COUNT` comparisons of as many cases, 2 to `MOST_SIMULATED`.

    differences: of the cases, (case,). Simulated ones have their sizes; signs are even where the models are equal, and
    a true difference makes sizes and signs likelier by the factor exp(slope x difference), which leaves the sizes the
    observed ones. test_count: of the comparison, by which p is multiplied. Others: as in `measure_difference`.
    """
    sizes = np.abs(differences)
    values = np.sort(np.concatenate([-sizes, sizes]))
    draws = rng.random((DRAW_COUNT, differences.size))

    def lows(slope: float, tests: float) -> tuple[float, Floats]:
        weights = np.exp(slope * (values - values[-1]))
        shares = np.cumsum(weights / weights.sum())
        drawn = values[np.minimum(np.searchsorted(shares, draws), values.size - 1)]
        level = 1.0 - ALPHA / (chosen_from * tests)
        ends = lower_ends(measure_means(drawn), count_moved(drawn), bounds, level=level)
        return float(weights @ values / weights.sum()), ends

    release_power = float((lows(0.0, 1.0)[1] > -margin).mean())
    spread = float(np.square(sizes).mean())
    if spread <= 0.0:
        return SimulatedPower(nan, release_power)
    near, far = 0.0, 2.0 / sqrt(spread * differences.size)
    while (lows(far, test_count)[1] > 0.0).mean() < power:
        near, far = far, 2.0 * far
        if far * float(values[-1]) > MOST_SLOPE:
            return SimulatedPower(nan, release_power)
    for _ in range(SLOPE_STEPS):
        middle = (near + far) / 2.0
        near, far = (near, middle) if (lows(middle, test_count)[1] > 0.0).mean() >= power else (middle, far)
    return SimulatedPower(lows(far, test_count)[0], release_power)


def sd_of_case(sd: float, samples: int, icc: float) -> float:
    """Standard deviation of a case's mean over its outputs. sd: of one output; icc: correlation of two, 0..1.

    With it, n counts cases: the design effect 1 + (samples - 1) x icc (Kish 1965), over the samples.
    """
    return sd * sqrt((1.0 + (samples - 1) * icc) / samples)


@dataclass(frozen=True, slots=True)
class Decided:
    """Power of the interval that decides on a mean difference whose sampling error is normal.

    error, df: of the mean. unit_count: cases, 2 or more. bounds: range of a difference; None if it is unbounded. The
    interval is t's, and allows for the share of cases at the lowest difference that so many can't show
    (`measure_difference`). Averaged over the standard error, whose square has the chi-squared distribution.
    """

    error: float
    df: float
    unit_count: int
    bounds: Interval | None = DIFFERENCES

    def power_of(self, effect: float, *, alpha: float = ALPHA, margin: float = 0.0) -> float:
        """Probability (0..1) that the interval begins above -margin. effect: the true difference."""
        return self._power_at(alpha, margin)(effect)

    def detectable(self, *, power: float = POWER, alpha: float = ALPHA) -> float:
        """Smallest true difference that is beyond chance with this power; NaN if none in the bounds is."""
        if not self.error > 0 or not self.df >= 1 or self.unit_count < 2:
            return nan
        most = inf if self.bounds is None else self.bounds.high
        power_at = self._power_at(alpha, 0.0)
        detectable = _solve(lambda effect: power_at(effect) if effect < 2 * most else 1.0, power)
        return detectable if detectable <= most else nan

    def _power_at(self, alpha: float, margin: float) -> Callable[[float], float]:
        from scipy.special import chdtri, ndtr, stdtrit

        share = 0.0 if self.bounds is None else float(unseen_share(self.unit_count, alpha / 2.0))
        lowest = 0.0 if self.bounds is None else self.bounds.low
        least = (-share * lowest - margin) / (
            1.0 - share
        )  # of the mean, so that mean - share x (mean - lowest) is above
        ranks = (np.arange(_FEWER_SHARES) + 0.5) / _FEWER_SHARES
        errors = self.error * np.sqrt(chdtri(self.df, ranks) / self.df)
        ends = np.maximum(float(stdtrit(self.df, 1.0 - alpha / 2.0)) * errors - margin, least)
        return lambda effect: float(ndtr((effect - ends) / self.error).mean())


def deciding_power(effect: float, sd: float, n: int, *, alpha: float = ALPHA, margin: float = 0.0) -> float:
    """`Decided.power_of` n pairs of normal differences in -1..1; 0 < `sd`, 2 <= `n`."""
    return Decided(sd / sqrt(n), n - 1.0, n).power_of(effect, alpha=alpha, margin=margin)


def deciding_n(
    effect: float, sd: float, *, power: float = POWER, alpha: float = ALPHA, margin: float = 0.0
) -> int | None:
    """Smallest number of pairs with this `deciding_power`; None if there is none up to `MOST_N`."""
    if effect + margin <= 0.0 or not sd > 0:
        return None
    return _least_n(lambda n: deciding_power(effect, sd, n, alpha=alpha, margin=margin) if n > 1 else 0.0, power)


def deciding_effect(sd: float, n: int, *, power: float = POWER, alpha: float = ALPHA) -> float:
    """Smallest true difference that n pairs detect with this `deciding_power`; NaN above 1."""
    return Decided(sd / sqrt(n), n - 1.0, n).detectable(power=power, alpha=alpha)


def _least_n(power_at: Callable[[int], float], wanted: float) -> int | None:
    low, high = 1, 2
    while power_at(high) < wanted:
        low, high = high, high * 2
        if high > MOST_N:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= wanted else (middle, high)
    return high


def _standard_error(sd: float, n: int, is_paired: bool) -> float:
    return sd * sqrt((1 if is_paired else 2) / n)


def _df(n: int, is_paired: bool) -> float:
    return n - 1.0 if is_paired else 2.0 * n - 2.0


def _power(noncentrality: float, df: float, alpha: float) -> float:
    from scipy.special import nctdtr, ndtr, stdtrit

    critical = float(stdtrit(df, 1 - alpha / 2))
    if df > MOST_EXACT_DF:  # t is normal there, and the series slow
        return float(ndtr(noncentrality - critical) + ndtr(-noncentrality - critical))
    below = [float(nctdtr(df, noncentrality, bound)) for bound in (critical, -critical)]
    upper, lower = (0.0 if isnan(share) else share for share in below)  # NaN: under 1e-15, too small for its series
    return 1.0 - upper + lower


def _solve(rising: Callable[[float], float], wanted: float) -> float:
    """Argument at which an increasing function of positive numbers reaches a value, by bisection."""
    low, high = 0.0, 1.0
    while rising(high) < wanted:
        low, high = high, high * 2
        if high == inf:
            return nan
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high

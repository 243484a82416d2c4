"""Power of a comparison with n values, and the n it needs: exact, by the noncentral t distribution."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan, nan, sqrt

import numpy as np

POWER = 0.8
ALPHA = 0.05
MOST_N = 10**9
MOST_EXACT_DF = 1_000_000
SHARES_SUMMED = 10_000  # of the distribution of the standard error


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


def sd_of_case(sd: float, samples: int, icc: float) -> float:
    """Standard deviation of a case's mean over its outputs. sd: of one output; icc: correlation of two, 0..1.

    With it, n counts cases: the design effect 1 + (samples - 1) x icc (Kish 1965), over the samples.
    """
    return sd * sqrt((1.0 + (samples - 1) * icc) / samples)


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

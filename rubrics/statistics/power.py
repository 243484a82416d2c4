"""What a comparison of n could find, and the n that it takes: exact, by the noncentral t distribution."""

from collections.abc import Callable
from math import inf, isnan, nan, sqrt

POWER = 0.8
ALPHA = 0.05
MOST_N = 10**9


def power_of(effect: float, sd: float, n: int, *, alpha: float = ALPHA, is_paired: bool = True) -> float:
    """The chance (0..1) that a two-sided t test of level alpha finds a true mean difference.

    effect: the difference, of the same unit as sd. sd: > 0; paired: of the differences, unpaired: of the values in each
    group. n: pairs, or values in each group. NaN where n is under 2 or sd is not above 0. Cohen (1988), chapter 2.
    """
    if n < 2 or not sd > 0:
        return nan
    return _power(abs(effect) / _standard_error(sd, n, is_paired), _df(n, is_paired), alpha)


def minimal_effect(standard_error: float, df: float, *, power: float = POWER, alpha: float = ALPHA) -> float:
    """The smallest true difference that a two-sided t test finds with this power.

    standard_error: of the mean difference, clustered where it is. NaN where it is NaN or not above 0, or df is under 1.
    """
    if isnan(standard_error) or standard_error <= 0 or not df >= 1:
        return nan
    return standard_error * _solve(lambda noncentrality: _power(noncentrality, df, alpha), power)


def detectable_effect(
    sd: float, n: int, *, power: float = POWER, alpha: float = ALPHA, is_paired: bool = True
) -> float:
    """The smallest true difference that n pairs, or n values in each group, find with this power; as `power_of`."""
    if n < 2 or not sd > 0:
        return nan
    return minimal_effect(_standard_error(sd, n, is_paired), _df(n, is_paired), power=power, alpha=alpha)


def needed_n(
    effect: float, sd: float, *, power: float = POWER, alpha: float = ALPHA, is_paired: bool = True
) -> int | None:
    """The fewest pairs, or values in each group, that find a true difference with this power.

    None where the effect or the sd is not above 0, or more than `MOST_N` would be needed.
    """
    if not abs(effect) > 0 or not sd > 0:
        return None
    low, high = 1, 2
    while power_of(effect, sd, high, alpha=alpha, is_paired=is_paired) < power:
        low, high = high, high * 2
        if high > MOST_N:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = power_of(effect, sd, middle, alpha=alpha, is_paired=is_paired) >= power
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def _standard_error(sd: float, n: int, is_paired: bool) -> float:
    return sd * sqrt((1 if is_paired else 2) / n)


def _df(n: int, is_paired: bool) -> float:
    return n - 1.0 if is_paired else 2.0 * n - 2.0


def _power(noncentrality: float, df: float, alpha: float) -> float:
    from scipy.special import nctdtr, ndtr, stdtrit

    critical = float(stdtrit(df, 1 - alpha / 2))
    if df > 1_000_000:  # t is normal then, and the series slow
        return float(ndtr(noncentrality - critical) + ndtr(-noncentrality - critical))
    below = [float(nctdtr(df, noncentrality, bound)) for bound in (critical, -critical)]
    upper, lower = (0.0 if isnan(share) else share for share in below)  # NaN: under 1e-15, too small for its series
    return 1.0 - upper + lower


def _solve(rising: Callable[[float], float], wanted: float) -> float:
    """Where a rising function of what is above 0 reaches a value, by halving."""
    low, high = 0.0, 1.0
    while rising(high) < wanted:
        low, high = high, high * 2
        if high == inf:
            return nan
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high

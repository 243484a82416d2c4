"""Numbers as people read them, in the terminal and on the report's page."""

import math
from fractions import Fraction

TINY_USD = 0.001  # less has no three digits in four places
SHORTEST_S = 0.0005  # less is as good as nothing


def score_words(value: float | None) -> str:
    """A score of 0..1 with three digits."""
    return "–" if value is None else f"{value:.3f}"


def sqrt_words(variance: float | None) -> str:
    """The standard deviation that a variance of scores comes to."""
    return score_words(None if variance is None else math.sqrt(variance))


def signed_words(value: float | None, digits: int = 3) -> str:
    """A difference of scores, with its sign."""
    return "–" if value is None else f"{value:+.{digits}f}"


def span_words(low: float | None, high: float | None) -> str:
    """An interval on a difference."""
    return "–" if low is None else f"{signed_words(low)}..{signed_words(high)}"


def span_of(low: float | None, high: float | None) -> str:
    """An interval on a score."""
    return "–" if low is None else f"{score_words(low)} to {score_words(high)}"


def p_words(p: float | None) -> str:
    """A chance with what digits it has; a tiny one is not 0."""
    if p is None:
        return "–"
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def rate_words(value: float | None) -> str:
    """A share of 0..1 in percent; none and all only where it is none or all."""
    if value is None:
        return "–"
    words = f"{100 * value:.1f}%"
    if words == "0.0%" and value > 0:
        return "<0.1%"
    return ">99.9%" if words == "100.0%" and value < 1 else words


def usd_words(value: float | None) -> str:
    """Dollars; an unknown price is not a price of 0, and a tiny one neither."""
    if value is None:
        return "unknown"
    return f"${value:,.4f}" if abs(value) >= TINY_USD or not value else price_words(value)


def price_words(value: float | None) -> str:
    """Dollars with three digits, for a page: $12.3, $0.000123; whole ones from $100."""
    if value is None:
        return "unknown"
    return "$0" if not value else f"${_three_digits(value)}"


def known_words(value: float | None, unknown_count: int) -> str:
    """Dollars; where some are unknown the sum of the others is the least that it can be."""
    return f"at least {price_words(value)}" if unknown_count and value is not None else price_words(value)


def seconds_words(value: float) -> str:
    """A time with three digits: 0.012 s, 8.25 min, 3.4 h."""
    for unit, seconds in (("h", 3600.0), ("min", 60.0)):
        if value >= 2 * seconds:
            return f"{_three_digits(value / seconds)} {unit}"
    return f"{_three_digits(value)} s" if value >= SHORTEST_S else "0 s"


def count_words(count: float) -> str:
    """A large count with three digits: 950, 12.3k, 4.56M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if count >= size:
            return f"{_three_digits(count / (1e3 if unit == 'k' else size))}{unit}"
    return f"{round(count):,}"


def _three_digits(value: float) -> str:
    """A number with three significant digits, never in powers of ten; its whole digits all."""
    rounded = float(f"{value:.3g}")  # first: 0.9999 is 1.00, not 1.000
    places = max(0, 2 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    return f"{value:,.{places}f}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def share_words(count: int, total: int) -> str:
    """How many of a total, in percent: 74%, 47.3%; all and none only where it is all or none."""
    if not total:
        return "–"
    permille = round(Fraction(1000 * count, total))
    if permille in (0, 1000) and count not in (0, total):
        return "<0.1%" if permille == 0 else ">99.9%"
    return f"{permille // 10}%" if permille % 10 == 0 else f"{permille / 10:.1f}%"

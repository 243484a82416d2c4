"""Numbers as people read them, in the terminal and on the report's page."""

import math


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
    """A share of 0..1 in percent."""
    return "–" if value is None else f"{100 * value:.1f}%"


def usd_words(value: float | None) -> str:
    """Dollars; an unknown price is not a price of 0."""
    return "unknown" if value is None else f"${value:,.4f}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"

"""Numbers as people read them, in the terminal and on the report's page."""

import math


def score_words(value: float | None) -> str:
    """A score of 0..1 with three digits."""
    return "–" if value is None else f"{value:.3f}"


def sqrt_words(variance: float | None) -> str:
    """The standard deviation that a variance of scores comes to."""
    return score_words(None if variance is None else math.sqrt(variance))


def rate_words(value: float | None) -> str:
    """A share of 0..1 in percent."""
    return "–" if value is None else f"{100 * value:.1f}%"


def usd_words(value: float | None) -> str:
    """Dollars; an unknown price is not a price of 0."""
    return "unknown" if value is None else f"${value:,.4f}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"

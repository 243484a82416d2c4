"""Numbers and counts as people read them, in the terminal, the report and messages."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

SHORTEST_S = 0.0005  # shorter times are shown as 0
EACH_CASE_ONCE = "means and rates count each case once"  # part of the note on uneven counts of outputs per case


def counted(count: int, one: str, many: str | None = None) -> str:
    """Count with its noun: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def score_words(value: float | None) -> str:
    """Score of 0..1 with three decimal places."""
    return "–" if value is None else f"{value:.3f}"


def sqrt_words(variance: float | None) -> str:
    """Standard deviation of scores with this variance."""
    return score_words(None if variance is None else math.sqrt(variance))


def signed_words(value: float | None, digits: int = 3) -> str:
    """Difference of scores with its sign."""
    return "–" if value is None else f"{value:+.{digits}f}"


def interval_words(low: float | None, high: float | None, words: Callable[[float | None], str] = score_words) -> str:
    """Interval as text, the same in each table and sentence: `0.710 to 0.750`. words: formats an end."""
    return "–" if low is None else f"{words(low)} to {words(high)}"


def difference_interval_words(low: float | None, high: float | None) -> str:
    """Interval of a difference of scores: `-0.010 to +0.020`."""
    return interval_words(low, high, signed_words)


def with_interval(
    value: float | None, low: float | None, high: float | None, words: Callable[[float | None], str] = score_words
) -> str:
    """Figure with its interval, if known: `0.730 (0.710 to 0.750)`."""
    return words(value) if low is None else f"{words(value)} ({interval_words(low, high, words)})"


def no_interval_words(unit_count: int | None) -> str:
    """Table cell with the reason for a mean without an interval, such as a single case."""
    return "none: 1 case" if unit_count == 1 else "–"


def p_words(p: float | None) -> str:
    """p-value with three decimal places; a tiny one is never shown as 0."""
    if p is None:
        return "–"
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def p_relation(p: float | None) -> str:
    """p-value in the form that follows the letter p: `= 0.044`, `<0.001`."""
    text = p_words(p)
    return text if text.startswith("<") else f"= {text}"


def rate_words(value: float | None) -> str:
    """Share of 0..1 in percent; 0% and 100% only if exact."""
    if value is None:
        return "–"
    text = f"{100 * value:.1f}%"
    if text == "0.0%" and value > 0:
        return "<0.1%"
    return ">99.9%" if text == "100.0%" and value < 1 else text


def bounded_rate_words(value: float | None, high: float | None) -> str:
    """Share and the upper end of its 95% interval: 0.0% (≤16.8%)."""
    return rate_words(value) if high is None else f"{rate_words(value)} (≤{rate_words(high)})"


def price_words(value: float | None) -> str:
    """Amount in dollars with three digits, the same everywhere: $12.3, $0.000123; whole dollars from $100."""
    if value is None:
        return "unknown"
    return "$0" if not value else f"${_three_digits(value)}"


def total_price_words(value: float | None, unknown_count: int) -> str:
    """Sum of known amounts, as a lower bound if some are unknown."""
    return f"at least {price_words(value)}" if unknown_count and value is not None else price_words(value)


def seconds_words(value: float) -> str:
    """Duration with three digits: 0.012 s, 8.25 min, 3.4 h."""
    for unit, seconds in (("h", 3600.0), ("min", 60.0)):
        if value >= 2 * seconds:
            return f"{_three_digits(value / seconds)} {unit}"
    return f"{_three_digits(value)} s" if value >= SHORTEST_S else "0 s"


def count_words(count: float) -> str:
    """Large count with three digits: 950, 12.3k, 4.56M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if count >= size:
            return f"{_three_digits(count / (1e3 if unit == 'k' else size))}{unit}"
    return f"{round(count):,}"


def _three_digits(value: float) -> str:
    """Number with three significant digits, all of its integer digits and no exponent."""
    rounded = float(f"{value:.3g}")  # rounded first: 0.9999 is 1.00, not 1.000
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    return f"{value:,.{decimals}f}"


def share_words(count: int, total: int) -> str:
    """Share of a total in percent: 74%, 47.3%; 0% and 100% only if exact."""
    if not total:
        return "–"
    permille = round(Fraction(1000 * count, total))
    if permille in (0, 1000) and count not in (0, total):
        return "<0.1%" if permille == 0 else ">99.9%"
    return f"{permille // 10}%" if permille % 10 == 0 else f"{permille / 10:.1f}%"


def spread_words(shares: Mapping[str, float]) -> str:
    """Shares by name in percent, the largest first: `good 60.0%, fair 30.0%, bad 10.0%`."""
    ranked = sorted(shares.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{name} {rate_words(share)}" for name, share in ranked)


def size_words(count: int) -> str:
    """Size in bytes as text, such as `3.2 MB`."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return counted(count, "byte") if unit == "bytes" else f"{size:,.1f} {unit}"

"""Forest plot: differences between two models with their 95% intervals."""

from collections.abc import Sequence

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.rules import CATEGORY, OVERALL
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import outcome_word, row_name
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw, labels_of
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.system.number_format import difference_interval_words, p_words, score_words, signed_words

MOST_ROWS = 20


def forest_of(rows: Sequence[ComparedRow], place: int) -> Figure | None:
    """Draw the overall difference and those of the criteria. rows: regressions first. None if nothing is compared."""
    known = [row for row in rows if row.scope != CATEGORY and row.figures.mean_diff is not None]
    if not known:
        return None
    widest = sorted(known, key=lambda row: -abs(row.figures.mean_diff or 0.0))[:MOST_ROWS]
    drawn = [row for row in known if row in widest or row is known[0]]
    labels = labels_of(row_name(row) for row in drawn)
    svg = draw(
        "differences",
        {"rows": [_mark(row, labels[row_name(row)]) for row in drawn]},
        names=list(labels.values()),
        height=20 * len(drawn),
    )
    table = table_of(
        f"Differences with their intervals: {known[0].pair_name}",
        ("Compared", "Beyond chance"),
        ("B - A", "95% interval", "p adjusted"),
        (_cells(row) for row in known),
        [index for index, row in enumerate(known) if row.is_regression],
    )
    return Figure(f"differences-{place}", "Differences with their 95% intervals", _reading(known, drawn), svg, table)


def _mark(row: ComparedRow, label: str) -> Row:
    found = row.figures
    interval = difference_interval_words(found.diff_low, found.diff_high)
    tip = f"{label}: {signed_words(found.mean_diff)}, 95% interval {interval}"
    words = f"{outcome_word(row)} beyond chance" if row.outcome.is_beyond else "may be chance"
    return {
        "name": label,
        "difference": found.mean_diff,
        "low": found.diff_low,
        "high": found.diff_high,
        "verdict": words,
        "tip": f"{tip}; {words}",
    }


def _cells(row: ComparedRow) -> tuple[str, ...]:
    found = row.figures
    span = difference_interval_words(found.diff_low, found.diff_high)
    return row_name(row), outcome_word(row), signed_words(found.mean_diff), span, p_words(row.chance)


def _reading(known: Sequence[ComparedRow], drawn: Sequence[ComparedRow]) -> str:
    """Sentence with the largest fall and rise, and the number of differences beyond chance."""
    criteria = [row for row in known if row.scope != OVERALL] or known
    low, high = (choose(criteria, key=lambda row: row.figures.mean_diff or 0.0) for choose in (min, max))
    words = [f"{low.name} fell most, by {_by(low)}"] if (low.figures.mean_diff or 0.0) < 0 else []
    words += [f"{high.name} rose most, by {_by(high)}"] if (high.figures.mean_diff or 0.0) > 0 else []
    beyond = sum(row.outcome.is_beyond for row in known)
    more = len(known) - len(drawn)
    hidden = f" The table has {more:,} more, with smaller differences." if more else ""
    found = " and ".join(words) or "No mean fell or rose"
    verb = "is" if beyond == 1 else "are"
    return f"{found}; {beyond:,} of {counted(len(known), 'difference')} {verb} beyond chance.{hidden}"


def _by(row: ComparedRow) -> str:
    found = row.figures
    words = score_words(abs(found.mean_diff or 0.0))
    if found.diff_low is None:
        return words
    return f"{words} (95% interval {difference_interval_words(found.diff_low, found.diff_high)})"

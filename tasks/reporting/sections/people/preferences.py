"""Table of the judge's preferences: wins, ties and losses of each model, and how often the order decided."""

from collections.abc import Sequence

from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.summary import other_model
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.system.number_format import interval_words, rate_words

_NUMBERS = ("Pairs", "Wins", "Ties", "Losses", "Win rate", "95% interval", "Position flips")


def preference_table(rows: Sequence[Row]) -> Table:
    """Table of rows of preference_rates with their win rates."""
    return table_of("Preferences of the judge", ("Criterion", "Model", "Against"), _NUMBERS, map(_cells, rows))


def _cells(row: Row) -> tuple[str, ...]:
    counts = (f"{row[name]:,}" for name in ("pair_count", "win_count", "tie_count", "loss_count"))
    interval = interval_words(row["ci_low"], row["ci_high"], rate_words)
    rates = (rate_words(row["win_rate"]), interval, rate_words(row["position_flip_rate"]))
    return (row["criterion_id"], model_name(row), other_model(row), *counts, *rates)

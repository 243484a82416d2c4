"""Tables about a run for outputs other than the page: comparison, criteria and costs."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.comparing.figures import ComparedRow, worst_first
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.comparing.sentences import direction_words, outcome_word, row_name
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.verdict import question_words
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
)

COMPARED = ("A", "B", "B - A", "95% interval", "p adjusted", "{0}", "{1}", "Tied", "Pairs")
COSTS = (
    *("Rows", "Wall, s", "CPU, s", "Requests", "Replayed", "Tokens in", "Cached", "Tokens out", "Billed"),
    "Saved",
)


def sides_words(comparison: RunComparison, shown: Callable[[str], str] = str) -> str:
    """Sentence that names sides A and B. shown: formats a name."""
    if comparison.baseline_run_id != comparison.run_id:
        return f"A is run {shown(comparison.baseline_run_id)}, B this one, {shown(comparison.run_id)}."
    of_a, of_b = next(((row.model_a, row.model_b) for pair in comparison.models for row in pair.rows), ("", ""))
    return f"A is {shown(of_a)}, B is {shown(of_b)}, of this run."


def compared_rows(comparison: RunComparison) -> list[ComparedRow]:
    """Rows of all pairs of models: overall scores first, then regressions."""
    return worst_first(row for pair in comparison.models for row in pair.rows)


def comparison_table(comparison: RunComparison, most_rows: int | None = None) -> Table:
    """Table of a comparison, regressions first; the last line counts the rows left out."""
    rows = compared_rows(comparison)
    has_pairs = len({row.pair_name for row in rows}) > 1
    words = ("Models", "Criterion", "Beyond chance") if has_pairs else ("Criterion", "Beyond chance")
    shown = rows[:most_rows]
    cells = [(*((row.pair_name,) if has_pairs else ()), *_compared_cells(row)) for row in shown]
    worse_count = sum(row.is_regression for row in rows[len(shown) :])
    rest = f", {worse_count:,} of them worse beyond chance" if worse_count else ""
    numbers = tuple(heading.format(*direction_words(rows)) for heading in COMPARED)
    return _with_rest(table_of("What changed", words, numbers, cells), len(rows) - len(shown), rest)


def criterion_table(
    rows: Iterable[Row], gates: Container[str], models: Sequence[Row], most_rows: int | None = None
) -> Table:
    """Table of means by criterion and model, with the criteria's questions where known.

    rows: of criterion_scores; models: rows of run_scores, one per column.
    """
    by_criterion: dict[str, dict[tuple[str, str | None], Row]] = {}
    for row in rows:
        by_criterion.setdefault(row["criterion_id"], {})[row["model"], row["checkpoint"]] = row
    columns = [(row["model"], row["checkpoint"]) for row in models]
    shown = list(by_criterion.items())[:most_rows]
    questions = {name: question_words(next(iter(found.values())).get("description")) for name, found in shown}
    cells = [
        (
            *((criterion_id, questions[criterion_id]) if any(questions.values()) else (criterion_id,)),
            weight_words(found, gates),
            *(mean_and_coverage(found.get(column)) for column in columns),
        )
        for criterion_id, found in shown
    ]
    words = ("Criterion", "Question") if any(questions.values()) else ("Criterion",)
    table = table_of("Mean by criterion", words, ("Weight", *map(model_name, models)), cells)
    return _with_rest(table, len(by_criterion) - len(shown))


def cost_table(rows: Iterable[Row]) -> Table:
    """Table of time and cost by stage. rows: of stage_costs."""
    return table_of("Cost by stage", ("Stage", "Criterion"), COSTS, map(_cost_cells, rows))


def mean_and_coverage(row: Row | None) -> str:
    """Mean of a row of a mart, with the coverage if it is below 1."""
    if row is None:
        return "–"
    coverage = "" if row["coverage_rate"] == 1 else f" ({rate_words(row['coverage_rate'])})"
    return f"{score_words(row['mean'])}{coverage}"


def weight_words(by_model: Mapping[Any, Row], gates: Container[str]) -> str:
    """Weight of a criterion as text, from its rows of criterion_scores; `gate` for a gate."""
    row = next(iter(by_model.values()))
    return "gate" if row["criterion_id"] in gates else score_words(row["weight"])


def rows_cut(table: Table, most_rows: int) -> Table:
    """Table cut to its first rows, with a last line that counts the others."""
    cut = Table(table.caption, table.columns, table.rows[:most_rows])
    return _with_rest(cut, len(table.rows) - len(cut.rows))


def _compared_cells(row: ComparedRow) -> tuple[str, ...]:
    found = row.figures
    counts = (found.better_count, found.worse_count, found.tied_count, found.n)
    return (
        row_name(row),
        outcome_word(row),
        score_words(found.mean_a),
        score_words(found.mean_b),
        signed_words(found.mean_diff),
        difference_interval_words(found.diff_low, found.diff_high),
        p_words(row.chance),
        *(f"{count:,}" for count in counts),
    )


def _cost_cells(row: Row) -> tuple[str, ...]:
    names = ("request_count", "replayed_count", "prompt_tokens", "cached_tokens", "completion_tokens")
    counts = ("–" if row[name] is None else f"{row[name]:,}" for name in names)
    times = (f"{row['wall_s']:.2f}", f"{row['cpu_s']:.2f}")
    dollars = (price_words(row["cost_usd"]), price_words(row["saved_usd"]))
    return (row["stage"], row["criterion_id"] or "", f"{row['row_count']:,}", *times, *counts, *dollars)


def _with_rest(table: Table, rest_count: int, words: str = "") -> Table:
    """Table with a last line that counts the rows left out. words: added to that line."""
    if not rest_count:
        return table
    line = (f"and {counted(rest_count, 'other')}{words}", *[""] * (len(table.columns) - 1))
    return Table(table.caption, table.columns, (*table.rows, line))

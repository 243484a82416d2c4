"""Columns of the tables about comparisons and about a judge's noise."""

from collections.abc import Callable
from operator import attrgetter

from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.rubrics.text.tables import Cells, Table, table_from, table_of
from gradebook.tasks.comparing.decision_study import Components, DecisionStudy, Option
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    p_words,
    price_words,
    score_words,
    signed_words,
    sqrt_words,
)


def _p_cell(name: str) -> Callable[[ComparedRow], str]:
    return lambda row: p_words(attrgetter(name)(row))


def _count_cell(name: str) -> Callable[[ComparedRow], str]:
    count_of = attrgetter(name)
    return lambda row: f"{count_of(row):,}" if row.is_paired else "–"


COMPARED: Cells[ComparedRow] = {
    "a": lambda row: score_words(row.figures.mean_a),
    "b": lambda row: score_words(row.figures.mean_b),
    "b - a": lambda row: signed_words(row.figures.mean_diff),
    "95% interval": lambda row: difference_interval_words(row.figures.diff_low, row.figures.diff_high),
    "p (mean)": _p_cell("figures.p"),
    "p (t)": _p_cell("figures.p"),
    "p (wilcoxon)": _p_cell("figures.p_wilcoxon"),
    "p adjusted": _p_cell("chance"),
    "better": _count_cell("figures.better_count"),
    "rose": _count_cell("figures.better_count"),
    "worse": _count_cell("figures.worse_count"),
    "fell": _count_cell("figures.worse_count"),
    "tied": _count_cell("figures.tied_count"),
    "pairs": _count_cell("figures.n"),
    "unscored": _count_cell("counts.unscored_count"),
    "alone": _count_cell("counts.unpaired_count"),
    "effect size": lambda row: signed_words(row.figures.effect_size, 2),
    "bootstrap": lambda row: difference_interval_words(row.figures.boot_low, row.figures.boot_high),
    "detectable": lambda row: _detectable_words(row.figures.detectable_diff),
}


def _detectable_words(difference: float | None) -> str:
    """Smallest difference that would be found; above 1 no difference would."""
    return "none" if (difference or 0) > 1 else score_words(difference)


def component_table(study: DecisionStudy) -> Table:
    """Table of the standard deviations of scores by source."""
    sources = tuple(dict.fromkeys(source for found in study.components for source in found.variances))
    numbers = (*(source.replace("_", " ").capitalize() for source in sources), "Scores")
    rows = (
        (found.model, _score_name(found), *(sqrt_words(found.variances.get(name)) for name in sources), f"{found.n:,}")
        for found in study.components
    )
    return table_of("Standard deviation by source", ("Model", "Score"), numbers, rows)


def _score_name(found: Components) -> str:
    name = "overall" if found.scope == OVERALL else found.scope_id
    return f"{name} (people)" if found.kind == "rater" else name


def option_table(study: DecisionStudy) -> Table:
    """Table of designs with more cases, samples or replies, and what they would gain."""
    caption = "What more would gain: standard error of the mean overall score"
    return table_from(caption, {"Model": lambda option: option.model, "More": _more_words}, _OPTION, study.options)


def _more_words(option: Option) -> str:
    return option.more or "this run"


_OPTION: Cells[Option] = {
    "Cases": lambda option: f"{option.case_count:,.4g}",
    "Samples": lambda option: f"{option.sample_count:,.4g}",
    "Replicates": lambda option: f"{option.replicate_count:,.4g}",
    "Standard error": lambda option: f"{option.standard_error:.4f}",
    "Price": lambda option: "–" if option.cost_usd is None else price_words(option.cost_usd),
}

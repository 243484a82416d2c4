"""Tables of the sources of variance, and of what more cases, samples or replies of the judge would gain and cost."""

from collections.abc import Iterator

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.comparing.aa_test import study_run
from gradebook.tasks.comparing.decision_study import Components, Option
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import price_words, sqrt_words

_OF_OPTIONS = ("Cases", "Samples", "Replicates", "Standard error", "Price")


def study_tables(source: ReportSource) -> Iterator[Table]:
    """Both tables; none unless the judge replied several times to a question."""
    if not any(row["judge_variance"] is not None for row in source.summary.noise):
        return
    try:
        study = study_run(source.connection, source.lake, source.run_id)
    except InputError:  # replies of this kind are no replicates: `gradebook noise` gives the reason
        return
    if study.components:
        facets = tuple(dict.fromkeys(name for each in study.components for name in each.variances))
        rows = (_component_cells(each, facets) for each in study.components)
        headings = (*(name.replace("_", " ").capitalize() for name in facets), "Scores")
        yield table_of("Standard deviation by source", ("Model", "Score"), headings, rows)
    if study.options:
        caption = "What more would gain: standard error of the mean overall score"
        yield table_of(caption, ("Model", "More"), _OF_OPTIONS, map(_option_cells, study.options))


def _component_cells(found: Components, facets: tuple[str, ...]) -> tuple[str, ...]:
    name = "overall" if found.scope == OVERALL else found.scope_id
    known = (found.variances.get(facet) for facet in facets)
    deviations = ("–" if value is None else sqrt_words(value) for value in known)
    return (found.model, f"{name} (people)" if found.kind == "rater" else name, *deviations, f"{found.n:,}")


def _option_cells(found: Option) -> tuple[str, ...]:
    counts = (f"{count:,.4g}" for count in (found.case_count, found.sample_count, found.replicate_count))
    price = "–" if found.cost_usd is None else price_words(found.cost_usd)
    return (found.model, found.more or "this run", *counts, f"{found.standard_error:.4f}", price)

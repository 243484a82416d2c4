"""Numbers on the demo's page, compared with those of `gradebook sql`."""

import pytest

from gradebook.rubrics.text.wording import rate_words, score_words
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.user_queries import run_query
from tests.support.chromium import Visit, Visiting
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
CELLS = """
(caption) => {
  const table = [...document.querySelectorAll("table")].find((each) => each.caption?.textContent.trim() === caption);
  const rows = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  return rows.slice(1).map((row) => Object.fromEntries(row.map((cell, place) => [rows[0][place], cell])));
}
"""


def rows_of(reported: Reported, query: str) -> list[Row]:
    return run_query(reported.lake, query).to_pylist()


def table_on(seen: Visit, caption: str) -> list[dict[str, str]]:
    """Rows of a table on the page, as texts by heading."""
    return seen.ask(CELLS, caption)


def test_the_scores_on_the_page_equal_sql(visit: Visiting, reported: Reported):
    query = """
        with lowest as (
            select model, arg_min(criterion_id, mean) as lowest, min(mean) as lowest_mean,
            from criterion_scores where run_id = 'demo' and weight > 0 group by model
        )
        from run_scores natural join lowest where run_id = 'demo' order by mean desc nulls last, model
    """
    with visit(reported.pages["demo"]) as seen:
        shown = table_on(seen, "Scores by model")
    assert shown == [score_cells(row) for row in rows_of(reported, query)]


def score_cells(row: Row) -> dict[str, str]:
    """Row of run_scores as shown on the page; the demo costs nothing."""
    passing = f"{rate_words(row['pass_low'])} to {rate_words(row['pass_high'])}"
    return {
        "Model": model_name(row),
        "Verdict": "may ship" if row["mean"] > 0.9 else "may not ship",
        "Lowest criterion": f"{row['lowest']} {score_words(row['lowest_mean'])}",
        "Mean": score_words(row["mean"]),
        "95% interval": f"{score_words(row['ci_low'])} to {score_words(row['ci_high'])}",
        "SD": score_words(row["sd"]),
        "Uniform weights": score_words(row["uniform_mean"]),
        "Pass rate": f"{rate_words(row['pass_rate'])} ({passing})",
        "Gate failures": f"{rate_words(row['gate_failure_rate'])} (≤{rate_words(row['gate_failure_high'])})",
        "Coverage": rate_words(row["coverage_rate"]),
        "Scored": str(row["n"]),
        "Outputs": str(row["output_count"]),
        "Billed": "$0",
    }

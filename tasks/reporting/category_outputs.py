"""What each output scores in each category: no table holds it, so it is built again by the models of sql/."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources

import duckdb

from rubrics.model import Rubric
from tasks.aggregate import build_marts
from tasks.criteria import add_rubric_sources
from tasks.reporting.source import ReportSource
from tasks.requirements import Row, read_rows

# Whether a criterion passes comes to no score: a row's own gates are taken to pass at 1.
_SOURCES = {
    "source_outputs": "select output_id, case_id, model, checkpoint, sample_index, cluster from output_scores",
    "source_verdicts": "select output_id, criterion_id, status, score, null::varchar as reason from verdicts",
    "source_case_criteria": (
        "select output_id, criterion_id, category, weight, is_gate, threshold, 1.0::double as gate_threshold "
        "from case_criteria"
    ),
}


def category_boxes(source: ReportSource, rubric: Rubric) -> tuple[Row, ...]:
    """The rows of sql/report/category_boxes.sql: exactly the scores whose means `category_scores` has."""
    with _built(source, rubric) as connection:
        return read_rows(connection, report_sql("category_boxes"))


def report_sql(name: str) -> str:
    """A query of sql/report."""
    return resources.files("sql").joinpath(f"report/{name}.sql").read_text(encoding="utf-8")


@contextmanager
def _built(source: ReportSource, rubric: Rubric) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to `int_category_scores` of the run, and all that it reads."""
    with duckdb.connect() as memory:
        add_rubric_sources(memory, source.run_id, rubric)
        for name, query in _SOURCES.items():
            found = source.connection.execute(f"{query} where run_id = ?", [source.run_id])
            memory.register(name, found.to_arrow_table())
        build_marts(memory, only="int_category_scores")
        yield memory

"""Further marts of a page for the runs of `scored_lake`, which has only those of outputs and runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from gradebook.rubrics.model.opinions import OPINION_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.agreement.mart import AGREEMENT_SCHEMA
from gradebook.tasks.comparing.mart_rows import RUN_COMPARISON_SCHEMA
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.marts.models import build_marts
from gradebook.tasks.marts.sources import add_rubric_sources
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.source.report_source import ReportSource, opened_source
from gradebook.tasks.workspace.timings import TIMING_SCHEMA
from tests.support.scored_lake import JUDGMENTS

MARTS = ("category_scores", "criterion_scores", "score_distribution")
EMPTY = {
    "source_opinions": OPINION_SCHEMA,
    "source_agreement": AGREEMENT_SCHEMA,
    "source_timings": TIMING_SCHEMA,
    "source_run_comparisons": RUN_COMPARISON_SCHEMA,
}
SOURCES = {
    "source_outputs": "select * from outputs where output_id in (select output_id from output_scores where run_id = ?)",
    "source_verdicts": "select * exclude (run_id) from verdicts where run_id = ?",
    "source_case_criteria": "select *, 1.0::double as gate_threshold from case_criteria where run_id = ?",
}


def add_marts(lake: Lake, run_id: str, rubric: Rubric) -> None:
    """Build `MARTS` for a published run and put them into the lake."""
    with duckdb.connect(config={"threads": 1}) as memory:
        with connect(lake, read_only=True) as connection:
            for name, query in SOURCES.items():
                memory.register(name, connection.execute(query, [run_id]).to_arrow_table())
        for name, schema in EMPTY.items():
            memory.register(name, schema.empty_table())
        add_rubric_sources(memory, run_id, rubric)
        memory.execute(JUDGMENTS)
        build_marts(memory)
        marts = {mart: memory.execute(f"from {mart}").to_arrow_table() for mart in MARTS}

    def body(connection: duckdb.DuckDBPyConnection, version: int) -> None:
        for name, table in marts.items():
            connection.register("given", table)
            connection.execute(f"insert into {name} by name from given")

    commit(lake, f"add marts {run_id}", body)


@contextmanager
def page_source(lake: Lake, run_id: str, against: str | None = None) -> Iterator[ReportSource]:
    """Open the source of a run's page."""
    with opened_source(lake, summarise(lake, run_id), against) as source:
        yield source

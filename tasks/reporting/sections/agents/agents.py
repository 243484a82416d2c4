"""Section "Agents": errors of steps by type, severity and place, and what a solved task costs."""

from dataclasses import dataclass

import duckdb

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Figure
from gradebook.tasks.reporting.sections.agents.error_map import error_figure
from gradebook.tasks.reporting.sections.agents.solved_costs import solved_figure, unsolved_words
from gradebook.tasks.reporting.source.report_source import ReportSource

SOURCES = ("judge", "people")


@dataclass(frozen=True, slots=True)
class AgentContents:
    """Contents of the section. note: why there is no cost of a solved task; None if there is one."""

    figures: tuple[Figure, ...]
    note: str | None


def read_agents(source: ReportSource) -> AgentContents | None:
    """Read the section; None if no output of the run has steps, or nothing is known of their errors and costs."""
    runs = source.rows(query("reporting/agent_runs"), run_id=source.run_id)
    if not runs:
        return None
    errors = _errors(source)
    maps = [error_figure(name, [row for row in errors if row["source"] == name]) for name in SOURCES]
    solved = solved_figure(source, runs)
    figures = tuple(figure for figure in (*maps, solved) if figure is not None)
    return AgentContents(figures, unsolved_words(runs) if solved is None else None) if figures else None


def _errors(source: ReportSource) -> tuple[Row, ...]:
    try:
        return source.rows(query("reporting/step_errors"), run_id=source.run_id)
    except duckdb.CatalogException:  # a lake before there were marks of steps
        return ()

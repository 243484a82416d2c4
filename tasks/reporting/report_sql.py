"""The longer queries of reports: files of sql/report, a select each, whose first parameter is the run."""

from functools import cache
from importlib import resources

from tasks.reporting.source import ReportSource
from tasks.requirements import Row


def read_report(source: ReportSource, name: str, *parameters: object) -> tuple[Row, ...]:
    """The rows of sql/report/NAME.sql about the run. parameters: those after the run."""
    return source.rows(_query(name), source.run_id, *parameters)


@cache
def _query(name: str) -> str:
    return resources.files("sql").joinpath(f"report/{name}.sql").read_text(encoding="utf-8")

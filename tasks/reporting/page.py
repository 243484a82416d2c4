"""Report page of a run: one HTML file that loads nothing else and is complete without its script."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.drawing.templates import environment, render
from gradebook.tasks.reporting.sections.agents import read_agents
from gradebook.tasks.reporting.sections.agreement import report_verdict
from gradebook.tasks.reporting.sections.change import read_change
from gradebook.tasks.reporting.sections.cost import read_cost
from gradebook.tasks.reporting.sections.criteria import read_criteria
from gradebook.tasks.reporting.sections.examples import read_examples
from gradebook.tasks.reporting.sections.guards import read_guards
from gradebook.tasks.reporting.sections.history import read_history
from gradebook.tasks.reporting.sections.outcomes import read_outcomes_section
from gradebook.tasks.reporting.sections.people import read_people
from gradebook.tasks.reporting.sections.scores import read_scores
from gradebook.tasks.reporting.sections.spread import read_spread
from gradebook.tasks.reporting.sections.trust import read_trust
from gradebook.tasks.reporting.source.report_source import ReportSource, opened_source, read_source
from gradebook.tasks.system.files import write_text


@dataclass(frozen=True, slots=True)
class Section:
    """Section of the page. id: anchor, and name of its template in pages/parts; contents: values for the template."""

    id: str
    heading: str
    contents: Any


# In the order of a reader's questions: may it ship, what changed, where, how sure, at what cost, can it be trusted,
# show me. The criteria directly follow the overall scores, which say little without them.
_SECTIONS: tuple[tuple[str, str, Callable[[ReportSource], Any]], ...] = (
    ("scores", "Scores", read_scores),
    ("criteria", "Criteria", read_criteria),
    ("agents", "Agents", read_agents),
    ("change", "What changed", read_change),
    ("spread", "Spread", read_spread),
    ("history", "Over time", read_history),
    ("guards", "Rewards", read_guards),
    ("people", "Judge and people", read_people),
    ("outcomes", "Outcomes", read_outcomes_section),
    ("cost", "Cost", read_cost),
    ("trust", "Trust", read_trust),
    ("examples", "Examples", read_examples),
)


def write_report(
    lake: Lake, summary: RunSummary, path: Path, against: str | None = None, rubric_page: str | None = None
) -> Path:
    """Write the report of a published run and return its path. against: run to compare with, instead of its baseline.

    rubric_page: address of the rubric's page, relative to the report; only a site has these pages.
    Raises `InputError` if there is no such run, or nothing to compare.
    """
    with opened_source(lake, summary, against) as source:
        page = run_page(source, rubric_page)
    write_text(path, page)
    return path


def write_own_report(connection: duckdb.DuckDBPyConnection, lake: Lake, summary: RunSummary, path: Path) -> RunSummary:
    """Write the report of a run that was just published; returns its summary, with `report_fault` if drawing failed.

    connection: pinned to a version of the lake. A page that can't be drawn does not fail the run, which is judged and
    paid for. Raises `OSError` if the file can't be written.
    """
    try:
        write_text(path, run_page(read_source(connection, lake, summary)))
    except OSError:  # the page itself is fine: the same command writes it once there is room
        raise
    except Exception as error:  # noqa: BLE001 - see above
        return replace(summary, report_fault=f"{type(error).__name__}: {error}".splitlines()[0])
    return summary


def compile_templates() -> None:
    """Compile the templates of a report and of all its sections, ahead of the first page."""
    for name in ("report.html.j2", *(f"parts/{name}.html.j2" for name, _, _ in _SECTIONS)):
        environment().get_template(name)


def run_page(source: ReportSource, rubric_page: str | None = None) -> str:
    """Render the page of a run as HTML. rubric_page: as in `write_report`."""
    sections = tuple(_read_sections(source))
    examples = next((section.contents.examples for section in sections if section.id == "examples"), ())
    return render(
        "report.html.j2",
        source=source,
        summary=source.summary,
        verdict=report_verdict(source),
        rubric_page=rubric_page,
        run=source.summary.run,
        sections=sections,
        anchors={example.anchor for example in examples},
    )


def _read_sections(source: ReportSource) -> Iterator[Section]:
    """Read the sections, without empty ones."""
    for name, heading, read in _SECTIONS:
        contents = read(source)
        if contents is not None:
            yield Section(name, heading, contents)

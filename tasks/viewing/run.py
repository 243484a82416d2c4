"""Pages of one run: verdict first, then its models and criteria; the sections of its report are a click deeper."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.text.tables import Table
from gradebook.rubrics.text.wording import counted, score_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.run_tables import (
    Badge,
    badges_of,
    comparison_table,
    mean_interval_words,
    question_of,
    rows_by_criterion,
    score_table,
    sides_words,
    weight_words,
)
from gradebook.tasks.published.runs import read_runs
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.page import COMPARED, SECTIONS, Section, read_section, run_page, section_names
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.report_source import ReportSource, opened_source
from gradebook.tasks.reporting.sections.agreement import read_agreement
from gradebook.tasks.viewing.cases import CaseFilters, step_links
from gradebook.tasks.viewing.frame import Frame, data_name

MOST_OTHERS = 20  # runs to compare with
MOST_COMPARED = 40  # rows of the comparison with the baseline


def routes(frame: Frame) -> list[Route]:
    """Addresses of a run: its page, each section of its report, and the whole report as one page."""

    def run(request: Request) -> str:
        run_id = request.path_params["run_id"]
        title = f"{run_id} · gradebook"
        if line := next((line for line in frame.progress.read() if line.run.run_id == run_id), None):
            return frame.render("unpublished.html.j2", title, line=line)
        page = frame.at_version(read_run_page, run_id, summary=frame.summary(run_id))
        sections = frame.at_version(read_section_names, run_id, summary=frame.summary(run_id))
        return frame.render("run.html.j2", title, sections=sections, **page_values(frame.lake, page))

    def section(request: Request) -> str:
        run_id, name = request.path_params["run_id"], request.path_params["section"]
        contents, heading = frame.at_version(read_section_page, run_id, name, summary=frame.summary(run_id))
        title = f"{heading} · {run_id} · gradebook"
        sections = frame.at_version(read_section_names, run_id, summary=frame.summary(run_id))
        run = frame.summary(run_id).run
        values = {"run": run, "name": name, "heading": heading, "contents": contents, "sections": sections}
        return frame.render("section.html.j2", title, **values)

    def report(request: Request) -> str:
        run_id, against = request.path_params["run_id"], request.query_params.get("against", "")
        return frame.at_version(whole_report, run_id, against, summary=frame.summary(run_id))

    return [
        frame.route("/runs/{run_id}", run),
        frame.route("/runs/{run_id}/report", report),
        frame.route("/runs/{run_id}/sections/{section}", section),
    ]


@dataclass(frozen=True, slots=True)
class CriterionCell:
    """Mean of a criterion and a model, 0..1; None where no output has a score. words: the mean as text.

    note: its interval and outputs; address: of the outputs behind it.
    """

    model: str
    mean: float | None
    words: str
    is_below: bool
    note: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class CriterionLine:
    """Criterion with the means of the models, in their order."""

    criterion_id: str
    question: str
    weight: str
    cells: tuple[CriterionCell, ...]


@dataclass(frozen=True, slots=True)
class ModelLine:
    """Model of a run: its verdict, why, and its figures as texts by their headings.

    ends: the interval's ends and the mean, 0..1, for the picture; empty without a mean. address: of its outputs.
    """

    badge: Badge
    figures: dict[str, str]
    ends: tuple[float, ...]
    address: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """Contents of a run's page. others: ids of other published runs of the rubric, newest first."""

    summary: RunSummary
    models_shown: tuple[ModelLine, ...]
    criteria: tuple[CriterionLine, ...]
    models: tuple[str, ...]
    sides: str | None
    change: Table | None
    others: tuple[str, ...]


def read_run_page(lake: Lake, run_id: str, summary: RunSummary) -> RunPage:
    """Read the contents of a run's page. Its verdict is with the ratings now in the lake, as on its page of trust."""
    if summary.run["judge"] is not None:
        with opened_source(lake, summary) as source:
            summary = replace(summary, standings=read_agreement(source).standings)
    with connect_up_to_date(lake) as connection:
        runs = read_runs(connection)
    others = (
        row["run_id"]
        for row in runs
        if row["rubric_id"] == summary.run["rubric_id"] and row["status"] == "published" and row["run_id"] != run_id
    )
    comparison = summary.comparison
    return RunPage(
        summary,
        tuple(_model_lines(summary)),
        tuple(_criterion_lines(summary)),
        tuple(map(model_name, summary.scores)),
        None if comparison is None else sides_words(comparison),
        None if comparison is None else comparison_table(comparison, MOST_COMPARED),
        tuple(others)[:MOST_OTHERS],
    )


def _model_lines(summary: RunSummary) -> Iterator[ModelLine]:
    table = score_table(summary.verdict)
    headings = [column.heading for column in table.columns]
    for model, badge, cells in zip(summary.verdict.models, badges_of(summary.verdict), table.rows, strict=True):
        ends = tuple(model.row[name] for name in ("ci_low", "mean", "ci_high"))
        known = ends if None not in ends else ()
        address = CaseFilters(grid="criteria", model=badge.name).address(summary.run_id)
        yield ModelLine(badge, dict(zip(headings, cells, strict=True)), known, address)


def _criterion_lines(summary: RunSummary) -> list[CriterionLine]:
    groups = [(row["model"], row["checkpoint"]) for row in summary.scores]
    lines = []
    for criterion_id, by_group in rows_by_criterion(summary.criteria).items():
        cells = tuple(
            _cell(summary.run_id, model_name(row), by_group.get(group))
            for row, group in zip(summary.scores, groups, strict=True)
        )
        lines.append(CriterionLine(criterion_id, question_of(by_group), weight_words(by_group), cells))
    return lines


def _cell(run_id: str, model: str, row: Row | None) -> CriterionCell:
    if row is None or row["mean"] is None:
        return CriterionCell(model, None, "–", False)
    threshold = row.get("threshold")
    is_below = threshold is not None and row["mean"] < threshold
    note = f"{model}: 95% interval {mean_interval_words(row)}, {counted(row['n'], 'output')}"
    outputs = CaseFilters(grid="criteria", criterion=row["criterion_id"], model=model)
    return CriterionCell(model, row["mean"], score_words(row["mean"]), is_below, note, outputs.address(run_id))


def page_values(lake: Lake, page: RunPage) -> dict[str, Any]:
    """Values for the template."""
    verdict = page.summary.verdict
    return {
        "page": page,
        "run": page.summary.run,
        "summary": page.summary,
        "verdict_threshold": page.summary.pass_threshold,
        "data": data_name(page.summary.run),
        "verdict": verdict,
        "badges": badges_of(verdict),
        "step_links": partial(step_links, page.summary.run_id),
        "lake_words": lake.words(is_passed_on=True),
    }


def read_section_names(lake: Lake, _run_id: str, summary: RunSummary) -> tuple[tuple[str, str], ...]:
    """Ids and headings of the sections of a run's report that are not empty."""
    with opened_source(lake, summary, is_compared=False) as source:
        return section_names(source)


def read_section_page(lake: Lake, run_id: str, name: str, summary: RunSummary) -> tuple[Markup | None, str]:
    """Section of a run's report as HTML, None if it has nothing for this run, and its heading.

    Raises `InputError` for an unknown section.
    """
    with opened_source(lake, summary, is_compared=name in COMPARED) as source:
        section = read_section(source, name)
        heading = next(heading for section_id, heading, _ in SECTIONS if section_id == name)
        return None if section is None else _section_html(section, source, run_id), heading


def _section_html(section: Section, source: ReportSource, run_id: str) -> Markup:
    """Section by its template of the report; its links to examples lead to the page of the examples."""
    names = {"source": source, "summary": source.summary, "run": source.summary.run, "contents": section.contents}
    case_page = partial(CaseFilters().case_address, run_id)
    html = render(f"parts/{section.id}.html.j2", **names, anchors=(), rubric_page=None, case_page=case_page)
    if section.id != "examples":
        html = html.replace('href="#examples', f'href="/runs/{quote(run_id, safe="")}/sections/examples#examples')
    return Markup(_linked_to_cases(html, run_id))


def _linked_to_cases(html: str, run_id: str) -> str:
    """HTML whose charts lead to cases and runs; their pictures are groups for readers. Inputs have no raw quotes."""
    linked = html.replace(' data-cases="', f' href="/runs/{quote(run_id, safe="")}/cases?')
    linked = linked.replace(' data-run="', ' href="/runs/').replace(' data-name="', ' aria-label="')
    return linked if linked == html else linked.replace('class="picture" role="img"', 'class="picture" role="group"')


def whole_report(lake: Lake, _run_id: str, against: str, summary: RunSummary) -> str:
    """Report of a run, as `gradebook report` writes it.

    against: run to compare with; "": its baseline. Raises `InputError` if there is no such run, or nothing to compare.
    """
    with opened_source(lake, summary, against or None) as source:
        return run_page(source)

"""Report of a run: a page, one HTML file that loads nothing else and is complete without its script; and one picture
for a chat, with verdict, means, criteria by model and changes, in light colours.
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.rubrics.text.wording import counted, difference_interval_words, score_words, signed_words
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import outcome_word
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.run_tables import (
    badges_of,
    compared_rows,
    mean_interval_words,
    question_of,
    sides_words,
    verdict_rows,
    weight_words,
)
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.charts import distinct_labels, draw_png, shortened
from gradebook.tasks.reporting.comment import run_comment
from gradebook.tasks.reporting.rendering import render, visible
from gradebook.tasks.reporting.report_source import Group, ReportSource, opened_source, read_source
from gradebook.tasks.reporting.sections.agents import read_agents
from gradebook.tasks.reporting.sections.agreement import report_verdict
from gradebook.tasks.reporting.sections.change import read_change
from gradebook.tasks.reporting.sections.cost import read_cost
from gradebook.tasks.reporting.sections.criteria import read_criteria
from gradebook.tasks.reporting.sections.examples import read_examples
from gradebook.tasks.reporting.sections.guards import read_guards
from gradebook.tasks.reporting.sections.history import read_history, read_points
from gradebook.tasks.reporting.sections.outcomes import read_outcomes_section
from gradebook.tasks.reporting.sections.people import read_people
from gradebook.tasks.reporting.sections.scores import read_scores
from gradebook.tasks.reporting.sections.spread import read_spread
from gradebook.tasks.reporting.sections.trust import read_trust
from gradebook.tasks.system.files import write_text


@dataclass(frozen=True, slots=True)
class Section:
    """Section of the page. id: anchor, and name of its template in pages/parts; contents: values for the template."""

    id: str
    heading: str
    contents: Any


# In the order of a reader's questions: may it ship, what changed, where, how sure, at what cost, can it be trusted,
# show me. The criteria directly follow the overall scores, which say little without them.
SECTIONS: tuple[tuple[str, str, Callable[[ReportSource], Any]], ...] = (
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


COMPARED = ("scores", "change", "spread", "examples")  # sections that read the comparison
# Sections that few runs have, each with a reading that is empty for the others, and takes no picture to find out.
_RARE: dict[str, Callable[[ReportSource], Any]] = {
    "agents": lambda source: source.rows(query("reporting/agent_runs"), run_id=source.run_id),
    "history": lambda source: any(point.before for point in read_points(source).values()),
    "guards": read_guards,
    "outcomes": read_outcomes_section,
}


def section_names(source: ReportSource) -> tuple[tuple[str, str], ...]:
    """Ids and headings of the sections that a run has something for."""
    return tuple((name, heading) for name, heading, _ in SECTIONS if name not in _RARE or _RARE[name](source))


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


def run_page(source: ReportSource, rubric_page: str | None = None) -> str:
    """Render the page of a run as HTML. rubric_page: as in `write_report`."""
    sections = tuple(_read_sections(source))
    examples = next((section.contents.examples for section in sections if section.id == "examples"), ())
    verdict = report_verdict(source)
    return render(
        "report.html.j2",
        source=source,
        summary=source.summary,
        verdict=verdict,
        badges=badges_of(verdict),
        rubric_page=rubric_page,
        run=source.summary.run,
        sections=sections,
        anchors={example.anchor for example in examples},
    )


def _read_sections(source: ReportSource) -> Iterator[Section]:
    """Read the sections, without empty ones."""
    return (section for name, _, _ in SECTIONS if (section := read_section(source, name)) is not None)


def read_section(source: ReportSource, section_id: str) -> Section | None:
    """Read one section; None if the run has nothing for it. Raises `InputError` for an unknown section."""
    for name, heading, read in SECTIONS:
        if name == section_id:
            contents = read(source)
            return None if contents is None else Section(name, heading, contents)
    raise InputError("section", section_id, "one of " + ", ".join(name for name, _, _ in SECTIONS))


MOST_CRITERIA = 20
MOST_CHANGES = 16
MOST_FACTS = 4
MOST_STEPS = 2  # to do next: the cases to read, and the criterion to work on
MOST_VERDICT_LINES, MOST_REASON_LINES = 4, 3
CELLS_WIDTH = 340  # the slanted name of the last model extends beyond it
LINE, QUESTION_LINE = 20, 16  # units
LABEL_LETTERS, HALF_LABEL_LETTERS, HEAD_LETTERS, VERDICT_LETTERS = 29, 13, 100, 84
SIDE_LETTERS = 40
_TITLE, _TEXT = 22, 13  # font sizes


def run_picture(source: ReportSource) -> bytes:
    """Draw a run as a PNG of about 1,400 pixels in width."""
    rows, values = picture_parts(source)
    return draw_png("card", rows, **values)


def picture_parts(source: ReportSource) -> tuple[dict[str, Sequence[Row]], dict[str, Any]]:
    """Rows of the picture by their names in the chart, and the chart's values."""
    head, head_height = _head(source)
    labels = dict(
        zip(
            source.drawn_groups,
            distinct_labels((group.name for group in source.drawn_groups), LABEL_LETTERS),
            strict=True,
        )
    )
    rows: dict[str, Sequence[Row]] = {"head": head}
    values: dict[str, Any] = {"head_height": head_height, "models": list(labels.values())}
    values["colours"] = [group.colour for group in labels]
    for read in (_means, _cells, _changes):
        chart_rows, more = read(source, labels)
        rows[read.__name__.strip("_")] = chart_rows
        values |= more
    return rows, values


Labels = dict[Group, str]


def _head(source: ReportSource) -> tuple[list[Row], int]:
    """Lines at the top, and their height in units."""
    summary, run = source.summary, source.summary.run
    verdict = report_verdict(source)
    kind = {True: "good", False: "bad", None: "plain"}[verdict.is_good]
    facts = [f"run {run['run_id']}", counted(run["output_count"], "output"), f"judge: {run['judge'] or 'none'}"]
    facts += [f"{run['finished_at']:%Y-%m-%d}"] if run["finished_at"] else []
    banner = None if source.comparison is None else source.comparison.banner
    first, *others = verdict.lines
    sentence = [(line, kind, _TEXT + 3) for line in _lines(first, VERDICT_LETTERS, MOST_VERDICT_LINES)]
    sentences = [f"• {fact.sentence}" for fact in verdict.details[:MOST_FACTS]]
    sentences += [f"Next: {step.sentence}" for step in verdict.next_steps[:MOST_STEPS]]
    lines = [
        *sentence,
        *((line, "plain", _TEXT) for text in others for line in _lines(text, HEAD_LETTERS, MOST_REASON_LINES)),
        *((line, "plain", _TEXT) for text in sentences for line in _lines(text, HEAD_LETTERS, 2)),
        (f"{run['rubric_id']} {run['rubric_version']}", "plain", _TITLE),
        (" · ".join(facts), "soft", _TEXT),
        *([] if any(row["n"] for row in summary.scores) else [("No output has an overall score.", "soft", _TEXT)]),
        *((line, "bad", _TEXT) for line in _lines(banner or "", HEAD_LETTERS, 2)),
    ]
    drawn, y = [], 0
    for line, ink, size in lines:
        drawn.append({"line": shortened(line.replace("`", ""), HEAD_LETTERS), "y": y, "ink": ink, "size": size})
        y += size + 7
    return drawn, y


def _lines(sentence: str, most_letters: int, most_lines: int) -> list[str]:
    """Sentence on lines of the picture; one that takes more loses its end."""
    return textwrap.wrap(sentence, most_letters, break_on_hyphens=False, max_lines=most_lines, placeholder=" …")


def _means(source: ReportSource, labels: Labels) -> tuple[list[Row], dict[str, Any]]:
    scored = [(group, row) for row in verdict_rows(report_verdict(source)) if (group := source.group_of(row)) in labels]
    rows = [
        {"model": labels[group], "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"]}
        | {"words": f"{row['verdict']}: {score_words(row['mean'])} ({mean_interval_words(row)})"}
        for group, row in scored
    ]
    drawn, all_count = len(labels), len(source.groups)
    title = "Mean score, 95% interval" + (f": {drawn} of {all_count} models" if drawn < all_count else "")
    has_means = any(row["mean"] is not None for row in rows)
    return rows, {"has_means": has_means, "means_title": title, "means_height": LINE * len(rows)}


def _cells(source: ReportSource, labels: Labels) -> tuple[list[Row], dict[str, Any]]:
    by_criterion: dict[str, dict[Group, Row]] = {}
    for row in source.summary.criteria:
        by_criterion.setdefault(row["criterion_id"], {})[source.group_of(row)] = row
    drawn = _notable(source, by_criterion)
    labelled = distinct_labels(drawn, LABEL_LETTERS - 8)
    weights = (weight_words(by_criterion[criterion_id]) for criterion_id in drawn)
    names = [f"{name} · {weight}" for name, weight in zip(labelled, weights, strict=True)]
    questions = [question_of(by_criterion[criterion_id]) for criterion_id in drawn]
    rows = [
        {"criterion": name, "model": label, **_cell(by_criterion[criterion_id].get(group))}
        | {"question": visible(question) if index == 0 else ""}  # once in a line
        for criterion_id, name, question in zip(drawn, names, questions, strict=True)
        for index, (group, label) in enumerate(labels.items())
    ]
    title = "Mean by criterion, with its weight"
    if len(drawn) < len(by_criterion):
        title += f": {len(drawn)} of {len(by_criterion)} criteria, with the largest changes or weights"
    if any(row["words"].endswith("*") for row in rows):
        title += " (* not all outputs scored)"
    return rows, {"criteria": names, "has_cells": bool(rows), "cells_title": title} | (
        _cell_sizes(labels, len(drawn), has_questions=any(questions))
    )


def _cell(row: Row | None) -> Row:
    if row is None or row["mean"] is None:
        return {"mean": None, "words": "–"}
    return {"mean": row["mean"], "words": f"{score_words(row['mean'])}{'*' if row['coverage_rate'] < 1 else ''}"}


def _cell_sizes(labels: Labels, criterion_count: int, *, has_questions: bool) -> dict[str, Any]:
    """Size of the table of criteria, and the angle of its headings: slanted if they are long."""
    width = min(120, CELLS_WIDTH // max(1, len(labels)))
    is_level = all(7 * len(label) < width for label in labels.values())
    return {
        "cells_width": width * len(labels),
        "cells_height": (LINE + QUESTION_LINE * has_questions) * criterion_count,
        "cell_share": LINE / (LINE + QUESTION_LINE * has_questions),
        "angle": 0 if is_level else -25,
        "align": "center" if is_level else "left",
        "label_limit": width if is_level else 200,
    }


def _changes(source: ReportSource, labels: Labels) -> tuple[list[Row], dict[str, Any]]:
    comparison = source.comparison
    compared = [] if comparison is None else compared_rows(comparison)
    compared = [row for row in compared if row.figures.mean_diff is not None]
    most_changed = _most_changed(compared)[:MOST_CHANGES]
    drawn = [row for row in compared if row in most_changed]
    has_pairs = len({row.pair_name for row in compared}) > 1
    name_parts = [(row.name, row.pair_name) if has_pairs else (row.name,) for row in drawn]
    names = [" · ".join(shortened(part, HALF_LABEL_LETTERS) for part in parts) for parts in name_parts]
    names = distinct_labels(names, LABEL_LETTERS)
    rest = f": the {len(drawn)} largest of {len(compared)}" if len(drawn) < len(compared) else ""
    return [_change(name, row) for name, row in zip(names, drawn, strict=True)], {
        "has_changes": bool(drawn),
        "changes": names,
        "changes_title": f"What changed, B - A with its 95% interval{rest}",
        "changes_height": LINE * len(drawn),
        "sides": "" if comparison is None else sides_words(comparison, lambda name: shortened(name, SIDE_LETTERS)),
    }


def _change(name: str, row: ComparedRow) -> Row:
    figures, kind = row.figures, outcome_word(row) if row.outcome.is_beyond else ""
    text = (
        f"{signed_words(figures.mean_diff)} ({difference_interval_words(figures.diff_low, figures.diff_high)}) {kind}"
    )
    return {"change": name, "diff": figures.mean_diff, "kind": kind, "words": text} | {
        "low": figures.mean_diff if figures.diff_low is None else figures.diff_low,
        "high": figures.mean_diff if figures.diff_high is None else figures.diff_high,
    }


def _notable(source: ReportSource, by_criterion: dict[str, dict[Group, Row]]) -> list[str]:
    """Criteria to show, in their order: largest changes first, then gates, then largest weights."""
    compared = [] if source.comparison is None else compared_rows(source.comparison)
    changed = [
        row.scope_id for row in _most_changed(compared) if row.scope_id in by_criterion and row.outcome.is_beyond
    ]
    weights = {name: next(iter(rows.values()))["weight"] for name, rows in by_criterion.items()}
    heavy = sorted(by_criterion, key=lambda name: (weights[name] is not None, -abs(weights[name] or 0.0)))
    chosen = list(dict.fromkeys([*changed, *heavy]))[:MOST_CRITERIA]
    return [name for name in by_criterion if name in chosen]


def _most_changed(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Sort rows: overall scores first, then changes beyond chance, then by size of the difference."""
    return sorted(
        rows, key=lambda row: (row.scope != OVERALL, not row.outcome.is_beyond, -abs(row.figures.mean_diff or 0.0))
    )


def run_report(lake: Lake, summary: RunSummary, form: str, against: str | None = None) -> bytes:
    """Write the report of a published run as html, md or png. against: run to compare with, instead of its baseline.

    Raises `InputError` if there is no such run, or nothing to compare.
    """
    with opened_source(lake, summary, against) as source:
        match form:
            case "html":
                return run_page(source).encode()
            case "md":
                return run_comment(source, against).encode()
        return run_picture(source)

"""Run as one picture for a chat: verdict, means, criteria by model and changes, in light colours."""

import textwrap
from collections.abc import Sequence
from typing import Any

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import outcome_word
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.run_tables import (
    compared_rows,
    mean_interval_words,
    question_of,
    sides_words,
    weight_words,
)
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.drawing.charts import distinct_labels, draw_png, shortened
from gradebook.tasks.reporting.drawing.marking import visible
from gradebook.tasks.reporting.export.comment import run_comment
from gradebook.tasks.reporting.page import run_page
from gradebook.tasks.reporting.sections.agreement import report_verdict
from gradebook.tasks.reporting.source.report_source import Group, ReportSource, opened_source
from gradebook.tasks.system.number_format import difference_interval_words, score_words, signed_words

MOST_CRITERIA = 20
MOST_CHANGES = 16
MOST_FACTS = 4
MOST_STEPS = 2  # to do next: the cases to read, and the criterion to work on
MOST_VERDICT_LINES = 4
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
            distinct_labels((each.name for each in source.drawn_groups), LABEL_LETTERS),
            strict=True,
        )
    )
    rows: dict[str, Sequence[Row]] = {"head": head}
    values: dict[str, Any] = {"head_height": head_height, "models": list(labels.values())}
    values["colours"] = [group.colour for group in labels]
    for part in (_means, _cells, _changes):
        found, more = part(source, labels)
        rows[part.__name__.strip("_")] = found
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
    sentence = [(line, kind, _TEXT + 3) for line in _lines(verdict.sentence, VERDICT_LETTERS, MOST_VERDICT_LINES)]
    said = [f"• {fact.sentence}" for fact in verdict.facts[:MOST_FACTS]]
    said += [f"Next: {step.sentence}" for step in verdict.next_steps[:MOST_STEPS]]
    lines = [
        *sentence,
        *((line, "plain", _TEXT) for each in said for line in _lines(each, HEAD_LETTERS, 2)),
        (f"{run['rubric_id']} {run['rubric_version']}", "plain", _TITLE),
        (" · ".join(facts), "soft", _TEXT),
        *([] if any(row["n"] for row in summary.scores) else [("No output has an overall score.", "soft", _TEXT)]),
        *([(source.comparison.banner, "bad", _TEXT)] if source.comparison and source.comparison.banner else []),
    ]
    drawn, y = [], 0
    for line, ink, size in lines:
        drawn.append({"line": shortened(line, HEAD_LETTERS), "y": y, "ink": ink, "size": size})
        y += size + 7
    return drawn, y


def _lines(sentence: str, most_letters: int, most_lines: int) -> list[str]:
    """Sentence on lines of the picture; its last line is cut if there are more."""
    lines = textwrap.wrap(sentence, most_letters, break_on_hyphens=False)
    return [*lines[: most_lines - 1], *([" ".join(lines[most_lines - 1 :])] if len(lines) >= most_lines else [])]


def _means(source: ReportSource, labels: Labels) -> tuple[list[Row], dict[str, Any]]:
    found = [(group, row) for row in source.summary.scores if (group := source.group_of(row)) in labels]
    rows = [
        {"model": labels[group], "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"]}
        | {"words": f"{score_words(row['mean'])} ({mean_interval_words(row)})"}
        for group, row in found
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
    named = distinct_labels(drawn, LABEL_LETTERS - 8)
    weights = (weight_words(by_criterion[each]) for each in drawn)
    names = [f"{name} · {weight}" for name, weight in zip(named, weights, strict=True)]
    questions = [question_of(by_criterion[each]) for each in drawn]
    rows = [
        {"criterion": name, "model": label, **_cell(by_criterion[criterion_id].get(group))}
        | {"question": visible(question) if place == 0 else ""}  # once in a line
        for criterion_id, name, question in zip(drawn, names, questions, strict=True)
        for place, (group, label) in enumerate(labels.items())
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
    found = [] if comparison is None else compared_rows(comparison)
    found = [row for row in found if row.figures.mean_diff is not None]
    most_changed = _most_changed(found)[:MOST_CHANGES]
    shown = [row for row in found if row in most_changed]
    has_pairs = len({row.pair_name for row in found}) > 1
    named = [(row.name, row.pair_name) if has_pairs else (row.name,) for row in shown]
    names = [" · ".join(shortened(part, HALF_LABEL_LETTERS) for part in parts) for parts in named]
    names = distinct_labels(names, LABEL_LETTERS)
    rest = f": the {len(shown)} largest of {len(found)}" if len(shown) < len(found) else ""
    return [_change(name, row) for name, row in zip(names, shown, strict=True)], {
        "has_changes": bool(shown),
        "changes": names,
        "changes_title": f"What changed, B - A with its 95% interval{rest}",
        "changes_height": LINE * len(shown),
        "sides": "" if comparison is None else sides_words(comparison, lambda name: shortened(name, SIDE_LETTERS)),
    }


def _change(name: str, row: ComparedRow) -> Row:
    figures, kind = row.figures, outcome_word(row) if row.outcome.is_beyond else ""
    words = (
        f"{signed_words(figures.mean_diff)} ({difference_interval_words(figures.diff_low, figures.diff_high)}) {kind}"
    )
    return {"change": name, "diff": figures.mean_diff, "kind": kind, "words": words} | {
        "low": figures.mean_diff if figures.diff_low is None else figures.diff_low,
        "high": figures.mean_diff if figures.diff_high is None else figures.diff_high,
    }


def _notable(source: ReportSource, by_criterion: dict[str, dict[Group, Row]]) -> list[str]:
    """Criteria to show, in their order: largest changes first, then gates, then largest weights."""
    found = [] if source.comparison is None else compared_rows(source.comparison)
    changed = [row.scope_id for row in _most_changed(found) if row.scope_id in by_criterion and row.outcome.is_beyond]
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

"""Run in Markdown: comment for a pull request, and artifacts of a flow run."""

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from gradebook.rubrics.text.tables import rows_cut
from gradebook.rubrics.text.wording import counted, rate_words
from gradebook.tasks.comparing.verdict import RunVerdict
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.run_tables import comparison_table, cost_table, criterion_table, score_table, sides_words
from gradebook.tasks.published.summary import RunSummary, cost_words
from gradebook.tasks.reporting.rendering import command, escaped, render_markdown, table_text
from gradebook.tasks.reporting.report_source import MOST_DRAWN, ReportSource
from gradebook.tasks.reporting.sections.agreement import report_verdict

MOST_CHARACTERS = 65_000  # of a comment on GitHub, with some room for added lines
MOST_LETTERS = 2_000  # of the verdict's sentences
MOST_COMPARED, MOST_ARTIFACT_ROWS = 20, 500
MOST_ROWS = (60, 30, 15, 8, 3)  # of the other tables: the first number with which the comment is short enough

_REFUSED = "select count(*) as count from quarantine where run_id = ?"


def run_comment(source: ReportSource, against: str | None = None) -> str:
    """Render a run as a comment: verdict, scores, changes, criteria, cost, and the command that writes the page.

    At most `MOST_CHARACTERS` long. against: run to compare with, as given on the command line.
    """
    values = _values(source, against)
    for most_rows in MOST_ROWS:
        text = render_markdown("run.md.j2", values | _tables(source, most_rows)) + "\n"
        if len(text) <= MOST_CHARACTERS:
            return text
    return f"{text[: MOST_CHARACTERS - 2]}…\n"


def artifact_texts(summary: RunSummary, lake_words: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str]]:
    """Artifacts of a run's flow run: key, description and Markdown of each. lake_words: options that name the lake."""
    run_id, comparison = summary.run_id, summary.comparison
    scores = table_text(score_table(summary.verdict))
    verdict = verdict_text(summary.verdict, lake_words)
    description = f"Scores of run {run_id}, version {summary.run['version']}"
    models = summary.scores[:MOST_DRAWN]
    criteria = table_text(criterion_table(summary.criteria, models))
    yield "scores", description, f"{verdict}\n\n{scores}\n\n#### Mean by criterion\n\n{criteria}\n"
    if comparison is not None:
        banner = "" if comparison.banner is None else f"> {escaped(comparison.banner)}\n\n"
        table = table_text(comparison_table(comparison, MOST_ARTIFACT_ROWS))
        description = f"Run {run_id} (B) compared with {comparison.baseline_run_id} (A), regressions first"
        yield "comparison", description, f"{banner}{escaped(sides_words(comparison))}\n\n{table}\n"
    costs = table_text(cost_table(summary.costs))
    yield "costs", f"Costs of run {run_id}", f"{escaped(cost_words(summary.costs))}\n\n{costs}\n"


def verdict_text(verdict: RunVerdict, lake_words: tuple[str, ...]) -> Markup:
    """Verdict in Markdown: its sentence, then the facts and what to do next."""
    values = {
        "lines": [escaped(line, MOST_LETTERS) for line in verdict.lines],
        "facts": [escaped(fact.sentence, MOST_LETTERS) for fact in verdict.details],
        "next_steps": verdict.next_steps,
        "lake_words": lake_words,
    }
    return Markup(render_markdown("verdict.md.j2", values).strip())


def _values(source: ReportSource, against: str | None) -> dict[str, Any]:
    summary, run = source.summary, source.summary.run
    lake_words = source.lake.words(is_passed_on=True)
    arguments = ("gradebook", "report", source.run_id, *(("--against", against) if against else ()), *lake_words)
    return {
        "summary": summary,
        "verdict": verdict_text(report_verdict(source), lake_words),
        "run": run,
        "comparison": source.comparison,
        "sides": sides_words(source.comparison) if source.comparison else "",
        "fault": source.comparison_fault,
        "undrawn": _undrawn(source),
        "cost": cost_words(summary.costs),
        "trust": trust_words(source),
        "outputs": counted(run["output_count"], "output"),
        "page": command(*arguments),
    }


def _tables(source: ReportSource, most_rows: int) -> dict[str, Any]:
    """Tables with at most `most_rows` rows each."""
    summary, comparison, notes = source.summary, source.comparison, source.summary.run["notes"] or ()
    models = summary.scores[: len(source.drawn_groups)]
    unmet_count = len(summary.unmet)
    return {
        "unmet": [*map(str, summary.unmet[:most_rows])],
        "waived": [*map(str, summary.waived[:most_rows])],
        "unmet_rest": counted(unmet_count - most_rows, "other") if unmet_count > most_rows else "",
        "scores": rows_cut(score_table(report_verdict(source)), most_rows),
        "compared": comparison and comparison_table(comparison, min(most_rows, MOST_COMPARED)),
        "criteria": criterion_table(summary.criteria, models, most_rows),
        "notes": notes[:most_rows],
    }


def trust_words(source: ReportSource) -> str:
    """Short sentence on trust: expectations, refused rows and missing scores."""
    met = sum(row["expectation_count"] for row in source.summary.quality)
    unmet = sum(row["unmet_count"] for row in source.summary.quality)
    (refused,) = source.rows(_REFUSED, source.run_id)
    gaps = [row for row in source.summary.criteria if row["coverage_rate"] not in (None, 1)]
    clauses = [
        f"{unmet:,} of {counted(met, 'data-quality expectation')} not met" if unmet else "",
        f"{counted(met, 'data-quality expectation')} met" if met and not unmet else "",
        f"{counted(refused['count'], 'row')} refused",
        _gap_words(gaps),
    ]
    return f"{', '.join(clause for clause in clauses if clause)}."


def _gap_words(gaps: list[Row]) -> str:
    if not gaps:
        return "every output scored on every criterion"
    worst = min(gaps, key=lambda row: row["coverage_rate"])
    return f"as few as {rate_words(worst['coverage_rate'])} of outputs scored on a criterion ({worst['criterion_id']})"


def _undrawn(source: ReportSource) -> str:
    rest_count = len(source.groups) - len(source.drawn_groups)
    return f"And {counted(rest_count, 'model')} more, with lower means." if rest_count else ""

"""Verdict on a run or a comparison, and tables and sentences of a comparison, regressions first."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.markup import escape

from gradebook.flows.display.terminal import plain, show, stdout
from gradebook.rubrics.text.tables import Cells, Table, pick_columns, rows_cut, table_from, table_of
from gradebook.rubrics.text.wording import counted, rate_words, score_words, signed_words
from gradebook.tasks.comparing.attribution import ChangedCase, Explanation
from gradebook.tasks.comparing.compare import Comparison, ModelComparison
from gradebook.tasks.comparing.figures import ComparedRow, are_unchanged, worst_first
from gradebook.tasks.comparing.gate import GateFinding
from gradebook.tasks.comparing.run_comparison import ComparedModels, RunComparison
from gradebook.tasks.comparing.second_opinion import SecondOpinion
from gradebook.tasks.comparing.sentences import COMPARED, left_out_sentences, outcome_sentences, pair_sentences
from gradebook.tasks.comparing.verdict import RunVerdict, comparison_verdict

MOST_PARTS = 20
MOST_LOSSES = 3
MOST_ROWS = 10  # of a run's comparison with its baseline


_SHRUNK: Cells[dict[str, Any]] = {
    "B - A": lambda row: signed_words(row["difference"]),
    "drawn together": lambda row: signed_words(row["shrunk"]),
    "95% interval": lambda row: f"{signed_words(row['low'])} to {signed_words(row['high'])}",
    "worse with": lambda row: rate_words(row["worse_probability"]),
}


def show_comparison(comparison: Comparison, lake_words: Sequence[str] = ()) -> None:
    """Print the verdict and the banner, if any, then the tables of each pair of models, and the gate last.

    lake_words: options that name the lake.
    """
    show_verdict(comparison_verdict(comparison), lake_words)
    for letter, run in (("A", comparison.run_a), ("B", comparison.run_b)):
        stdout.print(
            f"[bold]{letter}[/] {run['run_id']}  {plain(run['rubric_id'])} {run['rubric_version']}", highlight=False
        )
    if comparison.banner:
        stdout.print(f"[bold yellow]{escape(plain(comparison.banner))}[/]")
    for pair in comparison.models:
        _show_pair(pair)
        _show_second_opinion(pair.second_opinion)
    for reason in comparison.not_compared:
        stdout.print(f"[yellow]not compared:[/] {escape(plain(reason))}")
    if comparison.gate is not None:
        _show_gate(comparison.gate)


def show_run_comparison(comparison: RunComparison) -> None:
    """Print a short comparison of a run with its baseline, regressions first."""
    if comparison.banner:
        stdout.print(f"[bold yellow]{escape(plain(comparison.banner))}[/]")
    for pair in comparison.models:
        if pair.rows:
            show(_baseline_table(pair, comparison))
    if comparison.gate is not None and not comparison.gate.is_failed:
        _show_gate(comparison.gate)


def _baseline_table(pair: ComparedModels, comparison: RunComparison) -> Table:
    title = f"{pair.name}: {comparison.run_id} (B) compared with {comparison.baseline_run_id} (A)"
    headings = ("A", "B", "B - A", "95% interval", "p adjusted", "better", "worse", "pairs")
    return rows_cut(_compared_table(title, pair.rows, *headings), MOST_ROWS)


def _compared_table(title: str, rows: Sequence[ComparedRow], *headings: str) -> Table:
    ordered = worst_first(rows)
    flagged = (index for index, row in enumerate(ordered) if row.is_regression)
    return table_from(title, {"criterion": lambda row: row.name}, pick_columns(COMPARED, *headings), ordered, flagged)


def _show_pair(pair: ModelComparison) -> None:
    if are_unchanged(pair.rows):
        for sentence in outcome_sentences(pair.rows):
            stdout.print(escape(plain(sentence)))
        return
    if pair.rows and all(_is_identical(row) for row in pair.rows):
        pairs = counted(max(row.figures.n for row in pair.rows), "pair")
        stdout.print(escape(plain(f"{pair.name}: A and B have the same scores, criterion by criterion, on {pairs}.")))
        return
    if pair.rows and not any(row.figures.n for row in pair.rows):
        return  # the verdict says so
    show(_score_table(pair))
    for sentence in left_out_sentences(pair.rows):
        stdout.print(escape(plain(sentence)))
    if pair.rows:
        show(_test_table(pair))
    for sentence in pair_sentences(pair.rows):
        stdout.print(escape(plain(sentence)))
    if pair.explanation is not None:
        _show_explanation(pair.explanation)


def _is_identical(row: ComparedRow) -> bool:
    """Whether all scores of both sides are paired and equal."""
    figures, counts = row.figures, row.counts
    return (
        row.is_paired and bool(figures.n) and not (figures.better_count or figures.worse_count or counts.unpaired_count)
    )


def _score_table(pair: ModelComparison) -> Table:
    headings = ("A", "B", "B - A", "95% interval", "better", "worse", "tied", "pairs", "unscored", "alone")
    return _compared_table(pair.name, pair.rows, *headings)


def _test_table(pair: ModelComparison) -> Table:
    headings = ("p (mean)", "p (Wilcoxon)", "p adjusted", "effect size", "bootstrap", "detectable")
    return _compared_table("tests and effect sizes", pair.rows, *headings)


def _show_second_opinion(opinion: SecondOpinion | None) -> None:
    if opinion is None:
        return
    stdout.print(escape(plain(opinion.sentence)))
    if rows := opinion.rows():
        show(table_from("second opinion", {"criterion": lambda row: row["criterion_id"]}, _SHRUNK, rows))


def _show_explanation(explanation: Explanation) -> None:
    if explanation.parts:
        show(_part_table(explanation))
    stdout.print(escape(plain(explanation.sentence)))
    for score, share_a, share_b in explanation.shares_at:
        stdout.print(f"At or below {score:g}: {rate_words(share_a)} of A, {rate_words(share_b)} of B.")
    if explanation.lost_most:
        show(_lost_table(explanation.lost_most))


def _part_table(explanation: Explanation) -> Table:
    parts = sorted(explanation.parts, key=lambda part: part.part)
    largest = sorted(parts, key=lambda part: -abs(part.part))[:MOST_PARTS]
    rows = [
        (part.criterion_id, signed_words(part.part, 4), signed_words(part.uniform_part, 4))
        for part in parts
        if part in largest
    ]
    others = [part for part in parts if part not in largest]
    if others:
        rows.append((counted(len(others), "other"), signed_words(sum(part.part for part in others), 4), ""))
    return table_of("overall difference by criterion", ("criterion",), ("part", "uniform weights"), rows)


_LOST: Cells[ChangedCase] = {
    "A": lambda case: score_words(case.score_a),
    "B": lambda case: score_words(case.score_b),
    "B - A": lambda case: signed_words(case.difference),
}


def _lost_table(cases: Iterable[ChangedCase]) -> Table:
    return table_from("cases that lost most", {"case": lambda case: case.case_id}, _LOST, cases, last={"by": _losses})


def _losses(case: ChangedCase) -> str:
    return ", ".join(f"{name} {signed_words(part)}" for name, part in case.criteria[:MOST_LOSSES])


def _show_gate(gate: GateFinding) -> None:
    colour = "yellow" if gate.is_undecided else "red" if gate.is_failed else "green"
    stdout.print(f"[{colour}]{escape(plain(gate.sentence))}[/]")


COLOURS = {True: "bold green", False: "bold red", None: "bold"}


def show_verdict(verdict: RunVerdict, lake_words: Sequence[str] = ()) -> None:
    """Print the lines of the sentence, then the facts, then what to do next. lake_words: options that name the lake.

    A command stays on one line, for pasting; the terminal alone wraps it.
    """
    first, *others = verdict.lines or (verdict.sentence,)
    stdout.print(f"[{COLOURS[verdict.is_good]}]{escape(plain(first))}[/]")
    for line in others:
        stdout.print(escape(plain(line)))
    for fact in verdict.details:
        stdout.print(f"- {escape(plain(fact.sentence))}")
    if verdict.next_steps:
        stdout.print("next:")
    for step in verdict.next_steps:
        command = step.command(lake_words)
        stdout.print(f"- {escape(plain(step.sentence))}{':' if command else ''}")
        if command:
            stdout.print(f"  {escape(plain(command))}", soft_wrap=True)
    stdout.print()

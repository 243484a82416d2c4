"""What people see of reviews and comparisons in a terminal. All of it on stderr."""

from rich.markup import escape
from rich.table import Table

from flows.display import people, plain, table_titled
from tasks.compare import Comparison, CriterionComparison
from tasks.review import APPROVED, Review
from tasks.wording import score_words


def show_review(review: Review) -> None:
    """Print each rubric's verdict with its feedback, then the status."""
    for evaluation in review.evaluations:
        colour = "green" if evaluation.status == APPROVED else "red"
        people.print(f"\n[bold]{escape(evaluation.rubric)}[/]: [{colour}]{evaluation.status}[/]")
        for line in evaluation.feedback.splitlines():
            people.print(f"  {escape(plain(line))}", soft_wrap=True)
        for sentence in (*evaluation.unmet, *evaluation.notes):
            people.print(f"  [yellow]{escape(plain(sentence))}[/]", soft_wrap=True)
    people.print(f"\n{escape(plain(review.artifact))}: [bold]{review.status}[/]")


def show_comparison(comparison: Comparison) -> None:
    """Print the banner where there is one, then a table a pair of models."""
    a, b = comparison.run_a, comparison.run_b
    people.print(f"\n[bold]A[/] {a['run_id']}  {a['rubric_id']} {a['rubric_version']}", highlight=False)
    people.print(f"[bold]B[/] {b['run_id']}  {b['rubric_id']} {b['rubric_version']}", highlight=False)
    if comparison.banner:
        people.print(f"[bold yellow]{escape(comparison.banner)}[/]", soft_wrap=True)
    rows = (*comparison.overall, *comparison.criteria)
    for pair in dict.fromkeys((row.model_a, row.model_b) for row in rows):
        people.print(_pair_table(pair, [row for row in rows if (row.model_a, row.model_b) == pair]))
    for words in comparison.not_compared:
        people.print(f"[yellow]not compared:[/] {escape(plain(words))}", soft_wrap=True)


def _pair_table(pair: tuple[str, str], rows: list[CriterionComparison]) -> Table:
    names = " and ".join(escape(plain(name)) for name in dict.fromkeys(pair))
    table = table_titled(names, "criterion")
    for heading in ("A", "B", "B - A", "better", "worse", "tied", "cases", "unscored", "alone"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        difference = "–" if row.mean_diff is None else f"{row.mean_diff:+.3f}"
        counts = (row.better_count, row.worse_count, row.tied_count, row.n, row.unscored_count, row.unpaired_count)
        table.add_row(
            escape(row.criterion_id or "overall"),
            score_words(row.mean_a),
            score_words(row.mean_b),
            difference,
            *(f"{count:,}" for count in counts),
        )
    return table

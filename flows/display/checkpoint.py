"""A decision about a checkpoint in a terminal."""

from rich.markup import escape

from gradebook.flows.display.comparison import show_run_comparison
from gradebook.flows.display.terminal import people, plain
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision
from gradebook.tasks.system.number_format import score_words


def show_decision(decision: CheckpointDecision) -> None:
    """Print the decision with its reasons, then the comparisons with the last run and the best checkpoint."""
    row, colour = decision.row, "green" if decision.is_approved else "red"
    status = row["status"].replace("_", " ")
    people.print(f"[bold {colour}]{escape(plain(row['model']))} @ {escape(plain(row['checkpoint']))}: {status}[/]")
    for reason in row["reasons"]:
        people.print(f"- {escape(plain(reason))}")
    rubric = f"{row['rubric_id']} {row['rubric_version']}"
    people.print(f"mean {score_words(row['mean'])} by {escape(plain(rubric))}, run {row['run_id']}")
    if not decision.is_new:
        people.print("decided earlier; nothing was evaluated again")
    if decision.note:
        people.print(escape(plain(decision.note)))
    for comparison in filter(None, (decision.latest, decision.best if decision.best is not decision.latest else None)):
        show_run_comparison(comparison)
    people.print(f"report {escape(plain(decision.report))}", soft_wrap=True)

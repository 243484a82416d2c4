"""Verdicts and feedback of a review, on stdout."""

from rich.markup import escape

from gradebook.flows.display.terminal import people, plain
from gradebook.tasks.stages.review import APPROVED, Review


def show_review(review: Review) -> None:
    """Print the status, then each rubric's verdict with its feedback."""
    people.print(f"{escape(plain(review.artifact))}: [bold]{review.status}[/]")
    for evaluation in review.evaluations:
        colour = "green" if evaluation.status == APPROVED else "red"
        people.print(f"\n[bold]{escape(plain(evaluation.rubric))}[/]: [{colour}]{evaluation.status}[/]")
        for line in evaluation.feedback.splitlines():
            people.print(f"  {escape(plain(line))}")
        for sentence in (*evaluation.unmet, *evaluation.notes):
            people.print(f"  [yellow]{escape(plain(sentence))}[/]")

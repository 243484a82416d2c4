"""Verdict on a run or a comparison, on stdout: what a lead reads first."""

from collections.abc import Sequence

from rich.markup import escape

from gradebook.flows.display.terminal import people, plain
from gradebook.tasks.comparing.verdict import RunVerdict

COLOURS = {True: "bold green", False: "bold red", None: "bold"}


def show_verdict(verdict: RunVerdict, lake_words: Sequence[str] = ()) -> None:
    """Print the sentence, then the facts, then what to do next. lake_words: options that name the lake.

    A command stays on one line, for pasting; the terminal alone wraps it.
    """
    people.print(f"[{COLOURS[verdict.is_good]}]{escape(plain(verdict.sentence))}[/]")
    for fact in verdict.facts:
        if fact.sentence.rstrip(".") not in verdict.sentence:
            people.print(f"- {escape(plain(fact.sentence))}")
    if verdict.next_steps:
        people.print("next:")
    for step in verdict.next_steps:
        command = step.command(lake_words)
        people.print(f"- {escape(plain(step.sentence))}{':' if command else ''}")
        if command:
            people.print(f"  {escape(plain(command))}", soft_wrap=True)
    people.print()

"""The command `gradebook rubric new`: a rubric file from a few questions, or from a shipped rubric."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_rubric
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, ForceOption, LakeOption
from gradebook.flows.display.rubric import show_findings
from gradebook.flows.display.terminal import notes, plain
from gradebook.rubrics.files.draft import Answers, copied_text, drafted_text, id_from
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.rubric_store.files import RUBRIC_SUFFIXES, lint_rubrics, write_new


def new(
    file: Annotated[Path, typer.Argument(help="rubric file to write, such as my_rubric.yaml")],
    source: Annotated[
        str | None,
        typer.Option("--from", help="shipped rubric to copy, without questions", autocompletion=complete_rubric),
    ] = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write a commented rubric file from a few questions, or as a copy of a shipped rubric, and lint it.

    \b
    gradebook rubric new my_rubric.yaml
    gradebook rubric new my_rubric.yaml --from general_answer
    """
    if file.suffix not in RUBRIC_SUFFIXES:
        raise InputError("rubric new", repr(str(file)), "a file name that ends in .yaml")
    if file.exists() and not is_forced:  # before the questions
        raise InputError("rubric new", f"{file} already there", "a new file (or --force)")
    rubric_id = id_from(file.stem)
    text = drafted_text(rubric_id, _ask()) if source is None else _copy(source, rubric_id)
    write_new(file, text, is_forced=is_forced)
    notes.print(f"wrote {plain(file)}", markup=False, soft_wrap=True)
    name = str(file) if "/" in str(file) else f"./{file}"
    show_findings(lint_rubrics([name], find_lake(lake, data)), 1)
    asked = read_rubric(name).asked_criteria
    then = "see what a judge costs" if asked else "evaluate outputs with it"
    lint = plain(shlex.join(["gradebook", "rubric", "lint", name]))
    notes.print(f"edit it, lint it again with `{lint}`, then {then}:", markup=False)
    judge = ["--judge", "gpt-4o-mini", "--dry-run"] if asked else []
    command = shlex.join(["gradebook", "evaluate", "outputs.jsonl", "--rubric", name, *judge])
    notes.print(plain(command), markup=False, soft_wrap=True)


def _copy(source: str, rubric_id: str) -> str:
    if source not in shipped_rubrics():
        raise InputError("--from", repr(source), unknown_word(source, shipped_rubrics()))
    content, _ = shipped_text(source)
    return copied_text(content.decode(), source, rubric_id)


def _ask() -> Answers:
    """Ask in the terminal what the rubric is about. Raises `InputError` where nobody can answer."""
    if not sys.stdin.isatty():
        raise InputError("rubric new", "no terminal to ask questions in", "--from with the name of a shipped rubric")
    description = _answer("What does the rubric evaluate? (one sentence)")
    notes.print("Criteria: a question each, which a good output answers with yes. An empty line ends the list.")
    questions: list[str] = []
    while question := _answer(f"Criterion {len(questions) + 1}"):
        questions.append(question)
    if not questions:
        raise InputError("rubric new", "no criterion", "at least one question")
    return Answers(description, questions, _read_threshold(_answer("Lowest score that passes, 0 to 1 (empty: none)")))


def _answer(question: str) -> str:
    notes.print(f"{question}: ", end="", markup=False)
    try:
        return input().strip()
    except EOFError:  # Ctrl-D
        notes.print()
        raise InputError("rubric new", "the end of the input", f"an answer to {question!r}") from None


def _read_threshold(answer: str) -> float | None:
    try:
        threshold = float(answer) if answer else None
    except ValueError:
        threshold = -1.0
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError("rubric new", repr(answer), "a score of 0 to 1")
    return threshold

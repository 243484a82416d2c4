"""The commands `gradebook rubric ...`: write, lint, show, compare, import and export rubrics."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.completion import complete_rubric
from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    ForceOption,
    JsonOption,
    LakeOption,
    json_text,
    print_json,
)
from gradebook.flows.display.rubric import show_difference, show_findings, show_import, show_lost
from gradebook.flows.display.terminal import for_stdout, heading_words, notes, people, plain, say, show_rows
from gradebook.rubrics.files.draft import Answers, copied_text, drafted_text, id_from
from gradebook.rubrics.files.dump import rubric_values, rubric_yaml
from gradebook.rubrics.files.editor_schema import editor_schema
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.files.semver import next_version, required_step
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.rubric_store.files import (
    RUBRIC_SUFFIXES,
    describe_shipped,
    export_source,
    import_file,
    lint_rubrics,
    needs_of,
    refuse_lint_errors,
    write_new,
)
from gradebook.tasks.rubric_store.versions import (
    RubricState,
    delete_pointer,
    find_rubric,
    list_versions,
    register_rubric,
)


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


app = typer.Typer(
    help="Write, lint, show, compare, import and export rubrics.", no_args_is_help=True, rich_markup_mode=None
)

RubricArgument = Annotated[
    str,
    typer.Argument(
        help="a rubric file, a shipped rubric's name, or ID@VERSION in the lake", autocompletion=complete_rubric
    ),
]


class RubricFormat(StrEnum):
    """Rubric formats of other systems."""

    potato = "potato"
    dataknobs = "dataknobs"
    dimensions = "dimensions"
    scale = "scale"
    healthbench = "healthbench"
    tree = "tree"
    prometheus = "prometheus"
    checklist = "checklist"
    autorubric = "autorubric"
    ifeval = "ifeval"


FormatOption = Annotated[
    RubricFormat,
    typer.Option("--format", metavar="<format>", help=f"format of the other system: {', '.join(RubricFormat)}"),
]


@app.command()
def lint(
    rubrics: Annotated[
        list[str], typer.Argument(help="rubric files or names of shipped rubrics", autocompletion=complete_rubric)
    ],
    is_strict: Annotated[bool, typer.Option("--strict", help="fail on warnings too")] = False,
    against: Annotated[
        str | None, typer.Option("--against", help="previous version; default: the latest version in the lake")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find problems of rubrics before judging costs money, and suggest fixes.

    \b
    gradebook rubric lint rubric.yaml
    gradebook rubric lint rubrics/*.yaml --strict --json
    gradebook rubric lint rubric.yaml --against support_reply@1.2.0

    Exit: 0 clean, 1 an error (with --strict: or a warning) was found, 2 no such file.
    """
    found = lint_rubrics(rubrics, find_lake(lake, data), against)
    severities = Counter(finding.severity for finding in found)
    if as_json:
        counts = {f"{severity}_count": severities[severity] for severity in ("error", "warning", "note")}
        print_json({"findings": [asdict(finding) for finding in found], **counts})
    else:
        show_findings(found, len(rubrics))
    raise typer.Exit(NOT_MET if severities["error"] or (is_strict and severities["warning"]) else DONE)


app.command("new")(new)


@app.command("list")
def list_rubrics(
    target_type: Annotated[
        str | None, typer.Option("--target-type", help="rubrics for this kind of output, as their target_type names it")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the shipped rubrics and all rubric versions in the lake.

    \b
    gradebook rubric list
    gradebook rubric list --target-type support_reply
    """

    def wanted(rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if target_type is None or row["target_type"] == target_type]

    shipped = wanted(map(describe_shipped, shipped_rubrics()))
    versions = wanted(list_versions(find_lake(lake, data)))
    if as_json:
        print_json({"shipped": shipped, "versions": versions})
        return
    for title, rows in (("shipped rubrics", shipped), ("versions in the lake", versions)):
        if rows:
            people.print(f"[bold]{title}[/]")
            names = (name.removeprefix("is_").replace("rubric_version", "version") for name in rows[0])
            yes = {True: "yes", False: None}
            cells = ([yes[cell] if isinstance(cell, bool) else cell for cell in row.values()] for row in rows)
            show_rows(map(heading_words, names), cells)
    if not shipped and not versions:
        notes.print(f"no rubric has the target_type {escape(plain(target_type))}")


@app.command()
def register(
    rubric: RubricArgument,
    state: Annotated[RubricState, typer.Option("--state", help="state of the version")] = RubricState.active,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a rubric version in the lake without a run, or set its state.

    Nightly and checkpoint runs refuse drafts and retired versions. A draft can be registered again with another text
    until a run uses it. An error of lint refuses a file that is to be active.

    \b
    gradebook rubric register rubric.yaml --state draft
    gradebook rubric register support_reply@1.2.0 --state retired

    Exit: 0 stored, 2 not a rubric, or another text of a stored version.
    """
    found_lake = find_lake(lake, data)
    found = find_rubric(rubric, found_lake)
    if state == RubricState.active:
        refuse_lint_errors(rubric)
    register_rubric(found_lake, found, state, datetime.now(UTC))
    stored = {"rubric_id": found.id, "rubric_version": found.version, "state": state.value}
    if as_json:
        print_json(stored)
    else:
        say(f"{found.id} {found.version}: {state.value} in {found_lake.name}")


@app.command()
def show(
    rubric: RubricArgument,
    version: Annotated[str | None, typer.Option("--version", help="a version in the lake")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a rubric as YAML, with inherited parts written out.

    \b
    gradebook rubric show support_reply
    gradebook rubric show my_rubric --version 1.0.0
    """
    found = find_rubric(rubric if version is None else f"{rubric}@{version}", find_lake(lake, data))
    if as_json:
        print_json(rubric_values(found))
    else:
        needs = ", ".join(needs_of(found)) or "nothing but outputs"
        typer.echo(for_stdout(f"# needs: {needs}\n{rubric_yaml(found)}"), nl=False)


@app.command()
def diff(
    old: RubricArgument,
    new: RubricArgument,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the changes between two rubrics, and the smallest version step for them.

    \b
    gradebook rubric diff support_reply@1.0.0 rubric.yaml
    """
    found_lake = find_lake(lake, data)
    before, after = find_rubric(old, found_lake), find_rubric(new, found_lake)
    needed = required_step(before, after)
    if as_json:
        print_json(
            {
                "old": f"{before.id} {before.version}",
                "new": f"{after.id} {after.version}",
                "step": needed.step,
                "smallest_version": next_version(before.version, needed.step),
                "changes": [{"step": step, "change": words} for step, words in needed.reasons],
            }
        )
        return
    show_difference(before, after, needed)


@app.command()
def schema(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; default: stdout")] = None,
    is_forced: ForceOption = False,
) -> None:
    """Print the JSON Schema of rubric files, for completion and checks in an editor.

    \b
    gradebook rubric schema --out rubric.schema.json
    """
    if out is None:
        print_json(editor_schema())
    else:
        write_new(out, json_text(editor_schema()), is_forced=is_forced)
        typer.echo(out)


@app.command("import")
def import_rubric(
    file: Annotated[Path, typer.Argument(help="a file of the other system")],
    form: FormatOption,
    out: Annotated[
        Path, typer.Option("--out", "-o", help=".yaml or .jsonl file to write, or a folder for several files")
    ],
    answers: Annotated[
        Path | None, typer.Option("--answers", help="JSON Lines of models' answers, for a file with cases only")
    ] = None,
    is_forced: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a rubric, cases or ratings of another system.

    Fields without an equivalent go to metadata and are listed.

    \b
    gradebook rubric import config.yaml --format potato -o rubric.yaml
    gradebook rubric import task.json --format scale -o task/
    gradebook rubric import input_data.jsonl --format ifeval \\
        --answers responses.jsonl -o outputs.jsonl
    """
    summary = import_file(form.value, file, out, answers, is_forced=is_forced)
    if as_json:
        print_json(summary.as_json())
    else:
        show_import(summary)


@app.command("export")
def export_rubric(
    source: Annotated[
        str,
        typer.Argument(
            help="a rubric; for formats with cases: JSON Lines of rows with criteria", autocompletion=complete_rubric
        ),
    ],
    form: FormatOption,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; default: stdout")] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="with --format scale: a run whose ratings and verdicts are written too")
    ] = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Export a rubric, or rows with per-case criteria, to another system's format.

    Fields without an equivalent are dropped and listed.

    \b
    gradebook rubric export support_reply --format dataknobs -o support_reply.json
    gradebook rubric export outputs.jsonl --format healthbench
    """
    exported = export_source(form.value, source, find_lake(lake, data), run)
    if out is None:
        typer.echo(exported.text, nl=False)
    else:
        write_new(out, exported.text, is_forced=is_forced)
        typer.echo(out)
    show_lost(exported.lost)


@app.command()
def delete(
    rubric_id: Annotated[str, typer.Argument(help="a rubric's id")],
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Delete the pointer from a rubric's id to its latest version.

    Every version stays in the lake and can be named as ID@VERSION.

    \b
    gradebook rubric delete my_rubric
    """
    found = find_lake(lake, data)
    if not lake_exists(found):
        raise InputError("rubric", f"no lake at {found.name}", "one")
    delete_pointer(found, rubric_id)
    say(f"{rubric_id}: no longer has a latest version; its versions stay: `gradebook rubric list`")

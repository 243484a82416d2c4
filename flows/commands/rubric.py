"""The commands `gradebook rubric ...`: write, lint, show, compare, import and export rubrics."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    ForceOption,
    JsonOption,
    LakeOption,
    complete_rubric,
    complete_run,
    json_text,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_activity
from gradebook.flows.display.terminal import for_stdout, heading_words, plain, say, show_rows, stderr, stdout
from gradebook.rubrics.files.dump import Answers, copied_text, drafted_text, id_from, rubric_values, rubric_yaml
from gradebook.rubrics.files.editor_schema import editor_schema
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.files.versions import VersionStep, next_version, required_step, step_between
from gradebook.rubrics.lint.findings import LintFinding, Severity
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.lint.rules import UNUSUAL_SUM
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import TOP, Rubric, WeightTree
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.rubric_store.files import (
    RUBRIC_SUFFIXES,
    ImportSummary,
    describe_shipped,
    export_source,
    import_file,
    lint_rubrics,
    needs_of,
    refuse_unfit,
    write_new,
)
from gradebook.tasks.rubric_store.versions import (
    RubricState,
    delete_pointer,
    find_rubric,
    list_versions,
    register_rubric,
)
from gradebook.tasks.runs.function_settings import read_function_settings
from gradebook.tasks.system.shell import shell_line


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
    stderr.print(f"wrote {plain(file)}", markup=False, soft_wrap=True)
    name = str(file) if "/" in str(file) else f"./{file}"
    show_findings(lint_rubrics([name], find_lake(lake, data)), 1)
    judged_criteria = read_rubric(name).asked_criteria
    then = "see what a judge costs" if judged_criteria else "evaluate outputs with it"
    lint = plain(shlex.join(["gradebook", "rubric", "lint", name]))
    stderr.print(f"edit it, lint it again with `{lint}`, then {then}:", markup=False)
    judge = ["--judge", "gpt-4o-mini", "--dry-run"] if judged_criteria else []
    command = shlex.join(["gradebook", "evaluate", "outputs.jsonl", "--rubric", name, *judge])
    stderr.print(plain(command), markup=False, soft_wrap=True)


def _copy(source: str, rubric_id: str) -> str:
    if source not in shipped_rubrics():
        raise InputError("--from", repr(source), unknown_word(source, shipped_rubrics()))
    content, _ = shipped_text(source)
    is_unusual = any(finding.rule == UNUSUAL_SUM for finding in lint_text(content, source))
    sums = WeightTree.of(read_rubric(source)).positive_sums
    is_stated = is_unusual and len(sums) == 1  # each category may have its own sum
    return copied_text(content.decode(), source, rubric_id, sums[TOP] if is_stated else None)


def _ask() -> Answers:
    """Answers of the user to questions about the new rubric. Raises `InputError` without a terminal."""
    if not sys.stdin.isatty():
        raise InputError("rubric new", "no terminal to ask questions in", "--from with the name of a shipped rubric")
    description = _answer("What does the rubric evaluate? (one sentence)")
    stderr.print("Criteria: a question each, which a good output answers with yes. An empty line ends the list.")
    questions: list[str] = []
    while question := _answer(f"Criterion {len(questions) + 1}"):
        questions.append(question)
    if not questions:
        raise InputError("rubric new", "no criterion", "at least one question")
    return Answers(description, questions, _read_threshold(_answer("Lowest score that passes, 0 to 1 (empty: none)")))


def _answer(question: str) -> str:
    stderr.print(f"{question}: ", end="", markup=False)
    try:
        return input().strip()
    except EOFError:  # Ctrl-D
        stderr.print()
        raise InputError("rubric new", "the end of the input", f"an answer to {question!r}") from None


def _read_threshold(answer: str) -> float | None:
    try:
        threshold = float(answer) if answer else None
    except ValueError:
        threshold = -1.0
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError("rubric new", repr(answer), "a score of 0 to 1")
    return threshold


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
    openai_graders = "openai-graders"
    openai_evals = "openai-evals"
    promptfoo = "promptfoo"
    deepeval = "deepeval"
    lm_eval = "lm-eval"
    pairs = "pairs"
    inspect_scores = "inspect-scores"
    tau_bench = "tau-bench"
    terminal_bench = "terminal-bench"
    multichallenge = "multichallenge"
    advancedif = "advancedif"


FORMAT_HELP = f"format of the other system: {', '.join(RubricFormat)}"
FormatOption = Annotated[RubricFormat, typer.Option("--format", metavar="<format>", help=FORMAT_HELP)]


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
    allows = read_function_settings(Path.cwd(), os.environ).allows
    findings = lint_rubrics(rubrics, find_lake(lake, data), against, allows)
    severities = Counter(finding.severity for finding in findings)
    if as_json:
        counts = {f"{severity}_count": severities[severity] for severity in ("error", "warning", "note")}
        print_json({"findings": [asdict(finding) for finding in findings], **counts})
    else:
        show_findings(findings, len(rubrics))
    raise typer.Exit(NOT_MET if severities["error"] or (is_strict and severities["warning"]) else DONE)


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

    with shown_activity("reading rubrics"):
        shipped = wanted(map(describe_shipped, shipped_rubrics()))
        versions = wanted(list_versions(find_lake(lake, data)))
    if as_json:
        print_json({"shipped": shipped, "versions": versions})
        return
    for title, rows in (("shipped rubrics", shipped), ("versions in the lake", versions)):
        if rows:
            stdout.print(f"[bold]{title}[/]")
            names = (name.removeprefix("is_").replace("rubric_version", "version") for name in rows[0])
            yes = {True: "yes", False: None}
            cells = ([yes[cell] if isinstance(cell, bool) else cell for cell in row.values()] for row in rows)
            show_rows(map(heading_words, names), cells, is_narrow=True)
    if not shipped and not versions:
        stderr.print(f"no rubric has the target_type {escape(plain(target_type))}")


def register(
    rubric: RubricArgument,
    state: Annotated[RubricState, typer.Option("--state", help="state of the version")] = RubricState.active,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a rubric version in the lake without a run, or set its state.

    Nightly and checkpoint runs refuse drafts and retired versions. A draft can be registered again with another text
    until a run uses it. A file that is to be active is refused for errors of lint, for more than ten weighted criteria,
    for a description that repeats a name, and, with `require_thresholds`, for a criterion without a threshold.

    \b
    gradebook rubric register rubric.yaml --state draft
    gradebook rubric register support_reply@1.2.0 --state retired

    Exit: 0 stored, 2 not a rubric, or another text of a stored version.
    """
    found_lake = find_lake(lake, data)
    loaded = find_rubric(rubric, found_lake)
    if state == RubricState.active:
        refuse_unfit(rubric, loaded)
    register_rubric(found_lake, loaded, state, datetime.now(UTC))
    registered = {"rubric_id": loaded.id, "rubric_version": loaded.version, "state": state.value}
    if as_json:
        print_json(registered)
    else:
        say(f"{loaded.id} {loaded.version}: {state.value} in {found_lake.name}")


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
    loaded = find_rubric(rubric if version is None else f"{rubric}@{version}", find_lake(lake, data))
    if as_json:
        print_json(rubric_values(loaded))
    else:
        needs = ", ".join(needs_of(loaded)) or "nothing but outputs"
        typer.echo(for_stdout(f"# needs: {needs}\n{rubric_yaml(loaded)}"), nl=False)


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
                "changes": [{"step": step, "change": reason} for step, reason in needed.reasons],
            }
        )
        return
    show_difference(before, after, needed)


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


def import_rubric(
    file: Annotated[Path, typer.Argument(help="a file of the other system")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help=".yaml or .jsonl file to write, or a folder for several files")
    ],
    form: Annotated[
        RubricFormat | None,
        typer.Option("--format", metavar="<format>", help=f"{FORMAT_HELP}; default: found by the content"),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="JSON Lines of models' answers, for a file with cases only")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="<name>", help="model of outputs whose file names none")
    ] = None,
    is_forced: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a rubric, cases or ratings of another system.

    Fields without an equivalent go to metadata and are listed.

    \b
    gradebook rubric import results.json -o imported/
    gradebook rubric import config.yaml --format potato -o rubric.yaml
    gradebook rubric import task.json --format scale -o task/
    gradebook rubric import input_data.jsonl --format ifeval \\
        --answers responses.jsonl -o outputs.jsonl
    """
    summary = import_file(form and form.value, file, out, answers, model=model, is_forced=is_forced)
    if as_json:
        print_json(summary.as_json())
    else:
        show_import(summary)


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
        str | None,
        typer.Option(
            "--run",
            help="with --format scale: a run whose ratings and verdicts are written too",
            autocompletion=complete_run,
        ),
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
    found_lake = find_lake(lake, data)
    if not lake_exists(found_lake):
        raise InputError("rubric", f"no lake at {found_lake.name}", "one")
    delete_pointer(found_lake, rubric_id)
    say(f"{rubric_id}: no longer has a latest version; its versions stay: `gradebook rubric list`")


COLOURS: dict[Severity, str] = {"error": "red", "warning": "yellow", "note": "dim"}


def show_findings(findings: Sequence[LintFinding], file_count: int) -> None:
    """Print each finding with its fix, and the number of findings."""
    for finding in findings:
        where = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
        colour = COLOURS[finding.severity]
        location = f"{finding.place}: " if finding.place else ""
        _print_finding(
            where, f"[{colour}]{finding.severity}[/] [bold]{finding.rule}[/]", f"{location}{finding.message}"
        )
        stdout.print(f"    {escape(plain(finding.mend))}")
    files = counted(file_count, "rubric")
    if not findings:
        stdout.print(f"[green]{files}, no faults found[/]")
        return
    counts = Counter(finding.severity for finding in findings)
    totals = ", ".join(counted(counts[severity], severity) for severity in COLOURS)
    stdout.print(f"{files}: {totals}", highlight=False)


def show_difference(old: Rubric, new: Rubric, needed: VersionStep) -> None:
    """Print the changes, and the smallest version step for them."""
    stdout.print(f"[bold]{old.id} {old.version} -> {new.id} {new.version}[/]")
    for step, reason in needed.reasons:
        stdout.print(f"  {step}: {escape(plain(reason))}")
    if needed.step == "none":
        stdout.print("no change that affects the digest")
        return
    smallest = next_version(old.version, needed.step)
    actual_step = step_between(old.version, new.version)
    is_right = actual_step != "back" and _size(actual_step) >= _size(needed.step)
    verdict = "" if is_right else f"; [red]found {new.version}[/]"
    stdout.print(f"smallest allowed step: {needed.step}, {smallest} or later{verdict}")


def show_import(summary: ImportSummary) -> None:
    """Print the written files, the fields put into metadata, and the work left to do."""
    counts = (
        counted(summary.criterion_count, "criterion", "criteria"),
        counted(summary.case_count, "row"),
        counted(summary.rating_count, "rating"),
    )
    if summary.guessed_by is not None:
        stderr.print(f"read as {summary.format}, found by {summary.guessed_by} (--format names another)")
    stdout.print(", ".join(counts), highlight=False)
    if summary.choice_count:
        choices = counted(summary.choice_count, "choice between responses", "choices between responses")
        sentence = f"{choices}: after the evaluation `gradebook people ratings import` reads the file itself"
        stdout.print(sentence, highlight=False)
    if summary.needs:
        needs = escape(plain("; ".join(summary.needs)))
        stdout.print(f"a run needs {needs}; criteria without them stay unscored", highlight=False, soft_wrap=True)
    if summary.kept:
        stdout.print(f"stored in metadata: {escape(plain('; '.join(summary.kept)))}")
    for sentence in summary.unmatched[:10]:
        stdout.print(f"[yellow]unmatched:[/] {escape(plain(sentence))}")
    if len(summary.unmatched) > 10:
        stdout.print(f"[yellow]... and {len(summary.unmatched) - 10:,} more[/]")
    if summary.findings:
        stdout.print(
            f"lint finds {counted(len(summary.findings), 'fault')}: "
            f"{escape(plain(shell_line(('gradebook', 'rubric', 'lint', str(summary.written[0])))))}",
            soft_wrap=True,
        )
    for path in summary.written:
        stderr.print(f"wrote {escape(plain(path))}", soft_wrap=True)


def show_lost(lost: Sequence[str]) -> None:
    """Print, on stderr, the fields without an equivalent in the other format."""
    for field in lost:
        stderr.print(f"[yellow]lost:[/] {escape(plain(field))}", soft_wrap=True)


def _print_finding(where: str, kind: str, sentence: str) -> None:
    stdout.print(f"{escape(plain(where))}: {kind} {escape(plain(sentence))}")


def _size(step: str) -> int:
    return ("none", "patch", "minor", "major").index(step)

"""The commands `gradebook rubric ...`: lint, versions, import and export."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
from gradebook.rubrics.model.errors import InputError

app = typer.Typer(help="Rubrics: lint, list, show, diff, import, export.", no_args_is_help=True, rich_markup_mode=None)

RubricArgument = Annotated[str, typer.Argument(help="a rubric file, a shipped name, or ID@VERSION of the lake")]


class RubricFormat(StrEnum):
    """The formats of other systems."""

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


FormatOption = Annotated[RubricFormat, typer.Option("--format", help="whose format it is")]


@app.command()
def lint(
    rubrics: Annotated[list[str], typer.Argument(help="rubric files, or names of shipped rubrics")],
    is_strict: Annotated[bool, typer.Option("--strict", help="warnings fail too")] = False,
    against: Annotated[
        str | None, typer.Option("--against", help="the version before; default: the latest that the lake holds")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong with rubrics before they cost money, and how to mend it.

    \b
    gradebook rubric lint rubric.yaml
    gradebook rubric lint rubrics/*.yaml --strict --json
    gradebook rubric lint rubric.yaml --against support_reply@1.2.0

    Exit: 0 clean, 1 an error was found (with --strict: a warning too), 2 no such file.
    """
    from collections import Counter
    from dataclasses import asdict

    from gradebook.flows.display.rubric import show_findings
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.rubric_store.files import lint_rubrics

    found = lint_rubrics(rubrics, find_lake(lake, data), against)
    severities = Counter(finding.severity for finding in found)
    if as_json:
        counts = {f"{severity}_count": severities[severity] for severity in ("error", "warning", "note")}
        print_json({"findings": [asdict(finding) for finding in found], **counts})
    else:
        show_findings(found, len(rubrics))
    raise typer.Exit(NOT_MET if severities["error"] or (is_strict and severities["warning"]) else DONE)


@app.command("list")
def list_rubrics(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the rubrics that ship and every version that the lake keeps."""
    from gradebook.flows.display.terminal import show_rows
    from gradebook.rubrics.files.load import shipped_rubrics
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.rubric_store.files import describe_shipped
    from gradebook.tasks.rubric_store.versions import list_versions

    versions = list_versions(find_lake(lake, data))
    shipped = [describe_shipped(name) for name in shipped_rubrics()]
    if as_json:
        print_json({"shipped": shipped, "versions": list(versions)})
        return
    show_rows(shipped[0], (row.values() for row in shipped))
    if versions:
        show_rows(versions[0], (row.values() for row in versions))


@app.command()
def show(
    rubric: RubricArgument,
    version: Annotated[str | None, typer.Option("--version", help="a version that the lake keeps")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a rubric as YAML, with all that it takes from others written out.

    \b
    gradebook rubric show support_reply
    gradebook rubric show my_rubric --version 1.0.0
    """
    from gradebook.rubrics.files.dump import rubric_values, rubric_yaml
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.rubric_store.versions import find_rubric

    found = find_rubric(rubric if version is None else f"{rubric}@{version}", find_lake(lake, data))
    if as_json:
        print_json(rubric_values(found))
    else:
        typer.echo(rubric_yaml(found), nl=False)


@app.command()
def diff(
    old: RubricArgument,
    new: RubricArgument,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what changed between two rubrics, and the smallest version step that is right for it.

    \b
    gradebook rubric diff support_reply@1.0.0 rubric.yaml
    """
    from gradebook.flows.display.rubric import show_difference
    from gradebook.rubrics.files.semver import next_version, required_step
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.rubric_store.versions import find_rubric

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
    out: Annotated[Path | None, typer.Option("--out", "-o", help="write to this file; default: stdout")] = None,
    is_forced: ForceOption = False,
) -> None:
    """Print the JSON Schema of rubric files: an editor completes and checks by it.

    \b
    gradebook rubric schema --out rubric.schema.json
    """
    from gradebook.rubrics.files.editor_schema import editor_schema
    from gradebook.tasks.rubric_store.files import write_new

    if out is None:
        print_json(editor_schema())
    else:
        write_new(out, json_text(editor_schema()), is_forced=is_forced)
        typer.echo(out)


@app.command("import")
def import_rubric(
    file: Annotated[Path, typer.Argument(help="a file of another system")],
    form: FormatOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="a .yaml or .jsonl file, or a folder for several parts")],
    answers: Annotated[
        Path | None, typer.Option("--answers", help="JSON Lines of what models answered, where the file has only cases")
    ] = None,
    is_forced: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read a rubric, cases or ratings of another system; what has no place here is kept in metadata and named.

    \b
    gradebook rubric import config.yaml --format potato -o rubric.yaml
    gradebook rubric import task.json --format scale -o task/
    gradebook rubric import input_data.jsonl --format ifeval --answers responses.jsonl -o outputs.jsonl
    """
    from gradebook.flows.display.rubric import show_import
    from gradebook.tasks.rubric_store.files import import_file

    summary = import_file(form.value, file, out, answers, is_forced=is_forced)
    if as_json:
        print_json(summary.as_json())
    else:
        show_import(summary)


@app.command("export")
def export_rubric(
    source: Annotated[str, typer.Argument(help="a rubric; for a format of cases, JSON Lines of rows with criteria")],
    form: FormatOption,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="write to this file; default: stdout")] = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write a rubric, or rows with criteria of their own, in another system's format; what is lost is named.

    \b
    gradebook rubric export support_reply --format dataknobs -o support_reply.json
    gradebook rubric export outputs.jsonl --format healthbench
    """
    from gradebook.flows.display.rubric import show_lost
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.rubric_store.files import export_source, write_new

    exported = export_source(form.value, source, find_lake(lake, data))
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
    """Let an id no longer mean its latest version. Every version stays, and is named as ID@VERSION."""
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.connections import lake_exists
    from gradebook.tasks.rubric_store.versions import delete_pointer

    found = find_lake(lake, data)
    if not lake_exists(found):
        raise InputError(f"rubric: found no lake at {found.name}, expected one")
    delete_pointer(found, rubric_id)
    typer.echo(f"{rubric_id}: no latest version any more; its versions stay, see `gradebook rubric list`", err=True)

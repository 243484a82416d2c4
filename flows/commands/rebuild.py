"""The command `gradebook lake rebuild`: score tables of a published run, computed again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

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
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.progress_bars import shown_activity
from gradebook.flows.display.terminal import plain, show, stderr, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.tables import Column, Table
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.published.runs import latest_run
from gradebook.tasks.stages.rebuild import Difference, MartCheck, Rebuilt, rebuild_run


def show_rebuilt(rebuilt: Rebuilt) -> None:
    """Print the rebuilt marts, the differing rows, and the paths of written files."""
    checks = {check.mart: check for check in rebuilt.checks}
    rows = [
        (mart, f"{count:,}", *([_words(checks[mart], rebuilt)] if mart in checks else []))
        for mart, count in rebuilt.marts
    ]
    unequal = [index for index, (mart, _) in enumerate(rebuilt.marts) if mart in checks and not checks[mart].is_equal]
    columns = (Column("table"), Column("rows", is_number=True), *([Column("as published")] if checks else []))
    show(Table(f"run {rebuilt.run_id}, rebuilt", columns, tuple(rows), frozenset(unequal)))
    for check in rebuilt.checks:
        for difference in check.differences:
            stdout.print(f"[red]{check.mart}[/] {escape(_sentence(difference))}")
    if rebuilt.made_by != rebuilt.code_version and not rebuilt.is_equal:
        stdout.print(
            f"gradebook {rebuilt.made_by} published the run, this is {rebuilt.code_version}: figures differ where a "
            f"formula has changed since. To check the data, rebuild with gradebook {rebuilt.made_by}."
        )
    for file in rebuilt.files:
        stderr.print(f"wrote {escape(plain(file))}", soft_wrap=True)


def _words(check: MartCheck, rebuilt: Rebuilt) -> str:
    differing = counted(check.differing_count, "row")
    sentence = "equal" if check.is_equal else f"{differing} of both tables without a match"
    if not check.new_columns:
        return sentence
    return f"{sentence}; made by gradebook {rebuilt.made_by}, new since: {', '.join(check.new_columns)}"


def _sentence(difference: Difference) -> str:
    key = _pairs(difference.key)
    if difference.published is None:
        return f"{key}: only in the rebuilt table"
    if difference.rebuilt is None:
        return f"{key}: only in the published table"
    rebuilt = difference.rebuilt
    changes = [f"{name} {plain(value)} -> {plain(rebuilt[name])}" for name, value in difference.published.items()]
    return f"{key}: {', '.join(changes)} (published -> rebuilt)"


def _pairs(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {plain(value)}" for name, value in key.items())


def rebuild(
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="compare them with the published tables, to the bit")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write each table as Parquet into this folder")
    ] = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild a published run's score tables from its verdicts.

    Give --check, --out or both. Published tables never change. Ratings count as of the run's publication.

    \b
    gradebook lake rebuild --check
    gradebook lake rebuild nightly-1 --check --json
    gradebook lake rebuild nightly-1 --out rebuilt

    Exit: 0 done; with --check: all tables equal, 1 a table differs, 2 bad input.
    """
    if out is not None and not str(out).strip("."):
        raise InputError("--out", "no folder name", "one for the files of the marts")
    if not check and out is None:
        raise InputError("rebuild", "neither --check nor --out", "one of them, or both")
    found_lake = read_lake(lake, data)
    with shown_activity("rebuilding"):
        rebuilt = rebuild_run(found_lake, run or latest_run(found_lake), out=out, is_forced=is_forced, is_checked=check)
    if as_json:
        print_json(rebuilt.as_json())
    else:
        show_rebuilt(rebuilt)
    raise typer.Exit(DONE if rebuilt.is_equal else NOT_MET)

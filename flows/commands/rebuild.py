"""The command `gradebook rebuild`: score tables of a published run, computed again."""

from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_run
from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    ForceOption,
    JsonOption,
    LakeOption,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.rebuild import show_rebuilt
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.published.run_list import latest_run
from gradebook.tasks.stages.rebuild import rebuild_run


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
    gradebook rebuild --check
    gradebook rebuild nightly-1 --check --json
    gradebook rebuild nightly-1 --out rebuilt

    Exit: 0 done; with --check: all tables equal, 1 a table differs, 2 bad input.
    """
    if out is not None and not str(out).strip("."):
        raise InputError("--out", "no folder name", "one for the files of the marts")
    if not check and out is None:
        raise InputError("rebuild", "neither --check nor --out", "one of them, or both")
    found = read_lake(lake, data)
    rebuilt = rebuild_run(found, run or latest_run(found), out=out, is_forced=is_forced, is_checked=check)
    if as_json:
        print_json(rebuilt.as_json())
    else:
        show_rebuilt(rebuilt)
    raise typer.Exit(DONE if rebuilt.is_equal else NOT_MET)

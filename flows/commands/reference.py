"""The commands `gradebook suite reference`: runs that `--baseline reference` means."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, complete_run, print_json
from gradebook.flows.display.terminal import plain, say, show_rows, stderr
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row

SuiteOption = Annotated[
    str | None, typer.Option("--suite", help="suite of a nightly run; default: all runs of the rubric")
]


def pin(
    run: Annotated[str, typer.Argument(help="a published run's id", autocompletion=complete_run)],
    suite: SuiteOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pin a run as the reference of its rubric, or of a suite, in place of an earlier one.

    `--baseline reference` compares with it until another run is pinned, so a slow drift can't move the baseline.

    \b
    gradebook suite reference set 20261101-020000-a1b2c3
    gradebook suite reference set 20261101-020000-a1b2c3 --suite support
    """
    from gradebook.tasks.comparing.baseline import pin_reference

    row = pin_reference(find_lake(lake, data), run, suite, datetime.now(UTC))
    if as_json:
        print_json(row)
    else:
        say(f"{plain(row['run_id'])} is the reference of {plain(_of(row))}")


def list_pinned(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the pinned runs.

    \b
    gradebook suite reference list
    """
    from gradebook.tasks.comparing.baseline import list_references

    rows = list_references(find_lake(lake, data))
    if as_json:
        print_json({"references": list(rows)})
        return
    if not rows:
        stderr.print("no reference yet; `gradebook suite reference set RUN` pins one")
        return
    cells = [(row["rubric_id"], row["suite"] or "", row["run_id"], f"{row['set_at']:%Y-%m-%d %H:%M}") for row in rows]
    show_rows(("rubric", "suite", "run", "set at"), cells)


def clear(
    rubric: Annotated[str, typer.Argument(help="id of the rubric")],
    suite: SuiteOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unpin the reference of a rubric, or of a suite.

    \b
    gradebook suite reference clear support_reply
    gradebook suite reference clear support_reply --suite support
    """
    from gradebook.tasks.comparing.baseline import clear_reference

    row = clear_reference(find_lake(lake, data), rubric, suite)
    if as_json:
        print_json(row)
    else:
        say(f"{plain(row['run_id'])} is no longer the reference of {plain(_of(row))}")


def _of(row: Row) -> str:
    return str(row["rubric_id"]) if row["suite"] is None else f"{row['rubric_id']} in the suite {row['suite']}"

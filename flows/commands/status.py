"""The command `gradebook status`: what is at work, what stands still, what was published and what failed."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json
from gradebook.rubrics.model.errors import InputError

if TYPE_CHECKING:
    from gradebook.tasks.published.status import Status

WATCH_S = 5.0
MOST_DAYS = 36_500


def status(
    days: Annotated[int, typer.Option("--days", help="how far back failures are listed")] = 7,
    watch: Annotated[bool, typer.Option("--watch", help="show it anew every 5 seconds, until Ctrl-C")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a lake at a glance: runs at work, runs whose process is gone, the last run of each rubric, failures, sizes.

    Nothing is written, and no run is disturbed.

    \b
    gradebook status
    gradebook status --watch
    gradebook status --json | jq .is_alarming

    Exit: 0; 1 where a run of the last day failed, or its process is gone, and nothing made it good since; 2 bad input;
    3 where the catalog's server does not answer.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InputError(f"--days: found {days}, expected 1 to {MOST_DAYS:,}")
    if watch and as_json:
        raise InputError("--watch: found it with --json, expected one of the two")
    found = _read(lake, data, days)
    if as_json:
        print_json(found.as_json())
    else:
        _show(found, lake, data, days, watch=watch)
    raise typer.Exit(NOT_MET if found.is_alarming else DONE)


def _read(lake: str, data: str | None, days: int) -> "Status":
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.published.status import read_status

    return read_status(find_lake(lake, data), datetime.now(UTC), days, _lake_words(lake, data))


def _lake_words(lake: str, data: str | None) -> tuple[str, ...]:
    """The options that name a lake, wherever they are typed. An address holds no password: it would be refused."""
    kind, _, address = lake.partition(":")
    words = ("--lake", f"{kind}:{Path(address).absolute()}" if kind == "sqlite" else lake)
    if data is None:
        return words
    return (*words, "--data", data if "://" in data else str(Path(data).absolute()))


def _show(found: "Status", lake: str, data: str | None, days: int, *, watch: bool) -> None:
    from gradebook.flows.display.status import show_status
    from gradebook.flows.display.terminal import people

    try:
        show_status(found)
        while watch:
            time.sleep(WATCH_S)
            found = _read(lake, data, days)
            people.clear()
            show_status(found)
    except KeyboardInterrupt:  # how watching ends
        raise typer.Exit(DONE) from None

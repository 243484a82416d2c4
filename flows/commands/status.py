"""The command `gradebook status`: running, interrupted, published and failed runs of a lake."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.status import show_status
from gradebook.flows.display.terminal import people
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.status import Status, read_status

WATCH_S = 5.0
MOST_DAYS = 36_500


def status(
    days: Annotated[int, typer.Option("--days", help="number of days to look back for failures")] = 7,
    watch: Annotated[bool, typer.Option("--watch", help="refresh every 5 seconds until Ctrl-C")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a lake's running, interrupted, published and failed runs.

    For each rubric the latest published run is shown; the size of the lake follows. The command only reads, so it
    disturbs no run.

    \b
    gradebook status
    gradebook status --watch
    gradebook status --json | jq .is_alarming

    Exit: 0 no alarm, 1 a run of the last day failed or lost its process and no later run replaced it, or a judge
    changed, 2 bad input, 3 no answer from the catalog's server.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InputError("--days", str(days), f"1 to {MOST_DAYS:,}")
    if watch and as_json:
        raise InputError("--watch", "--json as well", "one of the two")
    found = _read(lake, data, days)
    if as_json:
        print_json(found.as_json())
    else:
        _show(found, lake, data, days, watch=watch)
    raise typer.Exit(NOT_MET if found.is_alarming else DONE)


def _read(lake: str, data: str | None, days: int) -> Status:
    return read_status(find_lake(lake, data), datetime.now(UTC), days)


def _show(found: Status, lake: str, data: str | None, days: int, *, watch: bool) -> None:
    try:
        show_status(found)
        while watch:
            time.sleep(WATCH_S)
            found = _read(lake, data, days)
            people.clear()
            show_status(found)
    except KeyboardInterrupt:  # the user stops watching
        raise typer.Exit(DONE) from None

"""The command `gradebook cost`: the cost of judging, past or after a change of the rubric or the judge."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_rubric, complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.cost import show_change, show_spending
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.ledger.spending import Part, read_spending
from gradebook.tasks.stages.cost_preview import preview_change

USUAL_DAYS = 30
MOST_DAYS = 36_500
SHOWN_PARTS: tuple[Part, ...] = ("criterion", "judge", "day")


class By(StrEnum):
    """Breakdowns of `gradebook cost`."""

    criterion = "criterion"
    judge = "judge"
    day = "day"
    stage = "stage"


def cost(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: all runs of the last --days", autocompletion=complete_run)
    ] = None,
    by: Annotated[
        By | None, typer.Option("--by", help="only this breakdown; default: criterion, judge and day")
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", help="number of days to look back, without RUN; default: 30")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(
            "--rubric", help="estimate the cost of RUN's outputs with this rubric", autocompletion=complete_rubric
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="estimate the cost of RUN's outputs with this judge")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cost of judging, or of a changed rubric or judge.

    Costs are shown as billed and as saved by stored replies. With --rubric or --judge the cost of a run after that
    change is estimated; no judge is asked.

    \b
    gradebook cost
    gradebook cost --days 7 --by day
    gradebook cost 20261101-020000-a1b2c3
    gradebook cost 20261101-020000-a1b2c3 --rubric rubric.yaml --judge gpt-4o
    """
    found = find_lake(lake, data)
    if rubric is not None or judge is not None:
        _show_change(found, run, rubric, judge, by, days, as_json=as_json)
        return
    since = None if run else datetime.now(UTC) - timedelta(days=_checked_days(days))
    if run and days is not None:
        raise InputError("--days", "a run as well", "one of the two", "the cost of a run is not split by time")
    parts = SHOWN_PARTS if by is None else (by.value,)
    spending = read_spending(found, run, since, parts)
    if as_json:
        print_json(spending.as_json())
    else:
        show_spending(spending)


def _checked_days(days: int | None) -> int:
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise InputError("--days", str(days), f"1 to {MOST_DAYS:,}")
    return days or USUAL_DAYS


def _show_change(
    lake: Lake,
    run: str | None,
    rubric: str | None,
    judge: str | None,
    by: By | None,
    days: int | None,
    *,
    as_json: bool,
) -> None:
    if run is None:
        raise InputError("--rubric, --judge", "no run", "the id of a run whose outputs are priced")
    if by is not None or days is not None:
        raise InputError("--by, --days", "--rubric or --judge as well", "past costs or an estimate, not both")
    change = preview_change(lake, run, rubric, judge)
    if as_json:
        print_json(change.as_json())
    else:
        show_change(change)

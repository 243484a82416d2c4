"""The command `gradebook cost`: the cost of judging, past or after a change of the rubric or the judge."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DataOption,
    JsonOption,
    LakeOption,
    complete_rubric,
    complete_run,
    print_json,
)
from gradebook.flows.display.summary import show_plan, usd_range_words
from gradebook.flows.display.terminal import plain, say, show_rows, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted, total_price_words
from gradebook.tasks.judging.prices import price_list
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.ledger.spending import CostSum, Part, Spending, read_spending
from gradebook.tasks.published.cost_preview import CostChange, preview_change
from gradebook.tasks.published.runs import latest_run

HEADINGS = ("billed", "saved", "judgments", "replayed", "tokens in", "cached", "written", "tokens out", "reasoning")


def show_spending(spending: Spending) -> None:
    """Print the total, a table for each breakdown, and notes on costs that are not included."""
    subject = f"run {spending.run_id}" if spending.run_id else f"since {plain(spending.since)} UTC"
    if not (spending.total.judgment_count or spending.total.replayed_count):
        none = "no request was sent, and no paid reply was used again (recorded ones cost nothing)"
        say(f"{subject}: {'no reply is counted' if any(spending.notes) else none}")
    else:
        say(f"{subject}: {_total_words(spending.total)}")
        for part, sums in spending.parts.items():
            stdout.print()
            show_rows((part, *HEADINGS), ((plain(row.part or ""), *_cells(row)) for row in sums))
    for note in spending.notes:
        say(f"note: {plain(note)}")
    if spending.total.judgment_count:
        say(_list_words("a stored cost is by the list of its day"))


def show_change(change: CostChange) -> None:
    """Print the plan after the change, the cost of a run before and after it, and the difference."""
    show_plan(change.rest, change.output_count, None)
    for name, plan in (("now", change.earlier), ("then", change.later)):
        cost = usd_range_words(plan.cost_usd, plan.cost_low_usd, plan.cost_high_usd)
        say(f"{name}: {cost} a run, {counted(plan.request_count, 'request')} if nothing is judged yet")
    say(change.sentence)
    for note in change.notes:
        say(f"note: {plain(note)}")
    say(_list_words("`prices` in a judge file come first"))


def _list_words(more: str) -> str:
    """Note on the age of the list of prices."""
    prices = price_list()
    return f"note: list prices are of genai-prices {prices['version']}, the newest of {prices['newest']}; {more}"


def _total_words(total: CostSum) -> str:
    return (
        f"{total_price_words(total.billed_usd, total.unpriced_count + total.uncounted_count)} billed for "
        f"{counted(total.judgment_count, 'judgment')}, "
        f"{total_price_words(total.saved_usd, total.unpriced_replayed_count)} saved by "
        f"{total.replayed_count:,} replayed"
    )


def _cells(costs: CostSum) -> tuple[str, ...]:
    return (
        total_price_words(costs.billed_usd, costs.unpriced_count + costs.uncounted_count),
        total_price_words(costs.saved_usd, costs.unpriced_replayed_count),
        f"{costs.judgment_count:,}",
        f"{costs.replayed_count:,}",
        f"{costs.prompt_tokens:,}",
        f"{costs.cached_tokens:,}",
        f"{costs.written_tokens:,}",
        f"{costs.completion_tokens:,}",
        f"{costs.reasoning_tokens:,}",
    )


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
            "--rubric",
            help="estimate the cost of RUN's outputs, by default the latest run's, with this rubric",
            autocompletion=complete_rubric,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", help="estimate the cost of RUN's outputs, by default the latest run's, with it"),
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
    gradebook cost --judge gpt-4o
    gradebook cost 20261101-020000-a1b2c3 --rubric rubric.yaml --judge gpt-4o
    """
    found_lake = find_lake(lake, data)
    if rubric is not None or judge is not None:
        _show_change(found_lake, run, rubric, judge, by, days, as_json=as_json)
        return
    since = None if run else datetime.now(UTC) - timedelta(days=_checked_days(days))
    if run and days is not None:
        raise InputError("--days", "a run as well", "one of the two", "the cost of a run is not split by time")
    parts = SHOWN_PARTS if by is None else (by.value,)
    spending = read_spending(found_lake, run, since, parts)
    if as_json:
        print_json(spending.as_json() | {"price_list": price_list()})
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
    if by is not None or days is not None:
        raise InputError("--by, --days", "--rubric or --judge as well", "past costs or an estimate, not both")
    change = preview_change(lake, run or latest_run(lake), rubric, judge)
    if as_json:
        print_json(change.as_json() | {"price_list": price_list()})
    else:
        show_change(change)

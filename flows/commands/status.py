"""The command `gradebook status`: running, interrupted, published and failed runs of a lake."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.options import DEFAULT_LAKE, DONE, NOT_MET, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import plain, show_rows, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted, price_words, signed_words, size_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.status import Status, UnpublishedRun, read_status
from gradebook.tasks.workspace.timings import stage_label

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
    current = _read(lake, data, days)
    if as_json:
        print_json(current.as_json())
    else:
        _show(current, lake, data, days, watch=watch)
    raise typer.Exit(NOT_MET if current.is_alarming else DONE)


def _read(lake: str, data: str | None, days: int) -> Status:
    return read_status(find_lake(lake, data), datetime.now(UTC), days)


def _show(current: Status, lake: str, data: str | None, days: int, *, watch: bool) -> None:
    try:
        show_status(current)
        while watch:
            time.sleep(WATCH_S)
            current = _read(lake, data, days)
            stdout.clear()
            show_status(current)
    except KeyboardInterrupt:  # the user stops watching
        raise typer.Exit(DONE) from None


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
QUIET_S = 900.0  # a running run that wrote nothing for longer is marked as quiet


def show_status(status: Status) -> None:
    """Print the running, interrupted, failed and last published runs, and the lake's size."""
    if status.at_work:
        stdout.print("[bold]running[/]")
        _show_at_work(status)
        stdout.print()
    for run in status.interrupted:
        stdout.print(f"[red]interrupted[/] {_named(run, status)}, started {age_words(run.age_s)} ago")
        stdout.print(f"  its process is gone; resume it with\n  {escape(plain(run.go_on))}\n", soft_wrap=True)
    for row in status.failures:
        reason = (row["reason"] or "").partition("\n")[0]
        stdout.print(
            f"[red]failed[/] {row['run_id']}, {row['rubric_id']} {row['rubric_version']}: {escape(plain(reason))}"
        )
        if go_on := status.go_on(row):
            stdout.print(f"  resume it with\n  {escape(plain(go_on))}", soft_wrap=True)
        stdout.print()
    if not (status.at_work or status.interrupted or status.failures):
        stdout.print("no run is running, interrupted or failed\n")
    _show_published(status)
    _show_judges(status)
    _show_sizes(status.lake, status.sizes)


def age_words(seconds: float) -> str:
    """Duration in its largest whole unit, such as `5 min`."""
    length, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{int(seconds // length)} {unit}"


def _show_at_work(status: Status) -> None:
    headings = ("run", "rubric", "stage", "done", "judged", "billed", "age", "last sign")
    show_rows(headings, [_row_at_work(run, status) for run in status.at_work])


def _row_at_work(run: UnpublishedRun, status: Status) -> tuple[str, ...]:
    of_run = status.of_runs.get(run.run_id)
    judged = "" if run.judged_count is None else f"{run.judged_count:,} of {run.planned_count or 0:,}"
    quiet = f"{age_words(run.quiet_s)} ago" + (" (quiet)" if run.quiet_s > QUIET_S else "")
    return (
        run.run_id,
        f"{of_run['rubric_id']} {of_run['rubric_version']}" if of_run else "starting",
        stage_label(run.stage),
        "" if run.done_rate is None else f"{run.done_rate:.0%}",
        judged,
        "" if run.cost_usd is None else f"{price_words(run.cost_usd)} of {price_words(run.planned_usd)}",
        age_words(run.age_s),
        quiet,
    )


def _named(run: UnpublishedRun, status: Status) -> str:
    of_run = status.of_runs.get(run.run_id)
    more = f", {of_run['rubric_id']} {of_run['rubric_version']} over {of_run['dataset']}" if of_run else ""
    return escape(plain(run.run_id + more))


def _show_published(status: Status) -> None:
    if not status.last_published:
        stdout.print("no run is published yet")
        return
    stdout.print("[bold]published last[/]")
    headings = ("rubric", "run", "requirements", "at (UTC)", "version", "outputs", "billed")
    show_rows(headings, [_row_published(row) for row in status.last_published])


def _show_judges(status: Status) -> None:
    if not status.judges:
        return
    stdout.print("\n[bold]judges on their anchors[/]")
    cells = [
        (
            row["judge"],
            row["anchor_set"],
            f"{row['night']}",
            row["criterion_id"],
            row["state"],
            f"{row['epoch']}",
            signed_words(row["mean_gap"]),
            f"{row['e_value']:.3g} of {row['alarm_at']:.0f}",
        )
        for row in status.judges
    ]
    show_rows(("judge", "anchors", "night", "criterion", "state", "epoch", "gap", "evidence"), cells)


def _row_published(row: Row) -> tuple[str, ...]:
    unmet = row["unmet"]
    stopped = f"; {plain(row['stopped'])}" if row["stopped"] else ""
    good = "all met" if row["has_requirement"] else "nothing is required"
    verdict = good if row["is_met"] else f"not met: {plain(unmet[0])}"
    return (
        f"{row['rubric_id']} {row['rubric_version']}",
        row["run_id"],
        verdict + (f" and {len(unmet) - 1} more" if len(unmet) > 1 else "") + stopped,
        f"{row['finished_at'] or row['created_at']:%Y-%m-%d %H:%M}",
        str(row["version"]),
        f"{row['output_count'] or 0:,}",
        price_words(row["cost_usd"]),
    )


def _show_sizes(lake: str, sizes: Row) -> None:
    catalog = "" if sizes["catalog_bytes"] is None else f", a catalog of {size_words(sizes['catalog_bytes'])}"
    text = f"{counted(sizes['version_count'], 'version')}, {size_words(sizes['data_bytes'])} in "
    stdout.print(f"\n{escape(plain(lake))}: {text}{counted(sizes['file_count'], 'file')}{catalog}")

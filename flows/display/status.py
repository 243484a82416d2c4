"""Overview of a lake for `gradebook status`."""

from rich.markup import escape

from gradebook.flows.display.terminal import people, plain, show_rows
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.status import Status, UnpublishedRun
from gradebook.tasks.system.number_format import price_words, signed_words, size_words
from gradebook.tasks.workspace.timings import stage_words

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
QUIET_S = 900.0  # a running run that wrote nothing for longer is marked as quiet


def show_status(status: Status) -> None:
    """Print the running, interrupted, failed and last published runs, and the lake's size."""
    if status.at_work:
        people.print("[bold]running[/]")
        _show_at_work(status)
        people.print()
    for run in status.left:
        people.print(f"[red]interrupted[/] {_named(run, status)}, started {age_words(run.age_s)} ago")
        people.print(f"  its process is gone; resume it with\n  {escape(plain(run.go_on))}\n", soft_wrap=True)
    for row in status.failures:
        reason = (row["reason"] or "").partition("\n")[0]
        people.print(
            f"[red]failed[/] {row['run_id']}, {row['rubric_id']} {row['rubric_version']}: {escape(plain(reason))}"
        )
        if go_on := status.go_on(row):
            people.print(f"  resume it with\n  {escape(plain(go_on))}", soft_wrap=True)
        people.print()
    if not (status.at_work or status.left or status.failures):
        people.print("no run is running, interrupted or failed\n")
    _show_published(status)
    _show_judges(status)
    _show_sizes(status.lake, status.sizes)


def age_words(seconds: float) -> str:
    """Duration in its largest whole unit, such as `5 min`."""
    length, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
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
        stage_words(run.stage),
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
        people.print("no run is published yet")
        return
    people.print("[bold]published last[/]")
    headings = ("rubric", "run", "requirements", "at (UTC)", "version", "outputs", "billed")
    show_rows(headings, [_row_published(row) for row in status.last_published])


def _show_judges(status: Status) -> None:
    if not status.judges:
        return
    people.print("\n[bold]judges on their anchors[/]")
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
    words = f"{counted(sizes['version_count'], 'version')}, {size_words(sizes['data_bytes'])} in "
    people.print(f"\n{escape(plain(lake))}: {words}{counted(sizes['file_count'], 'file')}{catalog}")

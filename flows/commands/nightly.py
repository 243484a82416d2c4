"""The command `gradebook suite nightly`: evaluation of a file's suites in turn."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gradebook.flows.commands.options import (
    BAD_INPUT,
    DONE,
    NOT_FINISHED,
    NOT_MET,
    JsonOption,
    PrefectOption,
    print_json,
    read_date,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, show_rows, stderr, stdout
from gradebook.flows.run import run_here
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import prepare_lake, refuse_unusable
from gradebook.tasks.operations.nightly import Night, NightUnfinished, run_night, suite_rows
from gradebook.tasks.operations.suites import (
    Suite,
    SuitesFile,
    chosen_suites,
    read_suites,
    suite_request,
    watch_request,
    with_lake,
)
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.resume_command import in_suites_file
from gradebook.tasks.stages.submit import StagesInThreads
from gradebook.tasks.system.shell import shell_line
from gradebook.tasks.workspace.folder import usual_lake

HEADINGS = ("suite", "verdict", "model", "mean", "lowest criterion", "before", "difference", "billed")


def nightly(  # noqa: PLR0913 - each is an option
    suites: Annotated[Path, typer.Argument(help="a suites file (YAML)")],
    night: Annotated[
        str | None, typer.Option("--date", help="value of {date}, such as 2026-11-22; default: today")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="a suite's id; may be repeated")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list the suites with their outputs and prices")] = False,
    lake: Annotated[str | None, typer.Option("--lake", help="lake to use instead of the file's")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="folder of Parquet files to use instead of the file's")
    ] = None,
    as_json: JsonOption = False,
    prefect: PrefectOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="show Prefect's log on stderr")] = False,
) -> None:
    """Evaluate a file's suites in turn, and compact their lake.

    Each suite is a run of its own. --only with the suites that are not finished resumes them. GRADEBOOK_LAKE is used if
    neither --lake nor the file names a lake.

    \b
    gradebook suite nightly suites.yaml --dry-run
    gradebook suite nightly suites.yaml
    gradebook suite nightly suites.yaml --date 2026-11-21 \\
        --only release_gate --json

    Exit: 0 all published, 1 a gate or rule is not met, 2 bad suites file or no suite can start (such as without a key),
    3 a suite is not finished. With --dry-run: 0 all suites can start, 2 one can't.
    """
    file = read_suites(suites)
    chosen = chosen_suites(file, only)
    day = None if night is None else read_date(night)
    file = with_lake(file, lake, data, usual_lake())
    if dry_run:
        is_right = _print_plans(file, [suite.id for suite in chosen], day, as_json=as_json)
        raise typer.Exit(DONE if is_right else BAD_INPUT)
    ended = _evaluate_night(suites, file, chosen, day, prefect=prefect, is_verbose=verbose)
    if as_json:
        print_json(ended.as_json())
    else:
        _show_night(ended)
        if ended.failed:
            _show_command(ended, suites, lake, data)
    if ended.failed:
        raise typer.Exit(BAD_INPUT if ended.is_refused else NOT_FINISHED)
    raise typer.Exit(NOT_MET if ended.unmet else DONE)


def _evaluate_night(
    path: Path, file: SuitesFile, chosen: Sequence[Suite], day: date | None, *, prefect: bool | None, is_verbose: bool
) -> Night:
    """Evaluate suites in this process; returns the outcome of each, even if some failed."""
    lake = find_lake(file.lake or usual_lake(), file.data)
    refuse_unusable(lake)
    prepare_lake(lake)  # anchors are looked up in the lake before the first suite creates it
    only = [suite.id for suite in chosen]
    parameters = {"suites": str(path), "date": day, "only": only, "lake": file.lake, "data": file.data}

    def direct() -> Night:
        return run_night(str(path), file, chosen, day, StagesInThreads())

    try:
        with shown_progress():
            return run_here(
                direct, "evaluate_nightly:evaluate_nightly", parameters, prefect=prefect, is_verbose=is_verbose
            )
    except NightUnfinished as unfinished:
        return unfinished.night


def _show_night(night: Night) -> None:
    show_rows(HEADINGS, suite_rows(night))
    for end in night.ends:
        for sentence in (*end.unmet, *([end.fault] if end.fault else [])):
            stdout.print(f"[red]{escape(end.suite)}:[/] {escape(plain(sentence))}")
        if end.judge_words:
            colour = "yellow" if end.watch is None or end.watch.is_changed else "green"
            stdout.print(f"[{colour}]{escape(end.suite)}:[/] {escape(plain(end.judge_words))}")
        if end.stopped:
            stdout.print(f"{escape(end.suite)}: {escape(plain(end.stopped))}")
        if end.unchecked:
            stdout.print(f"[yellow]{escape(end.suite)}:[/] {escape(plain(end.unchecked))}")
        if end.run_id:
            stdout.print(f"{escape(end.suite)}: run {end.run_id}")
        if end.report:
            stdout.print(f"  {end.report}", markup=False, soft_wrap=True)
    colour = "red" if night.failed or night.unmet else "green"
    stdout.print(f"[{colour}]{escape(plain(night.brief))}[/]")
    if upkeep := night.upkeep_fault or (night.upkeep and night.upkeep.sentence):
        stdout.print(f"lake: {escape(plain(upkeep))}")


def _show_command(night: Night, suites: Path, lake: str | None, data: str | None) -> None:
    """Print the command that resumes the unfinished suites: without --only it evaluates the others as new runs."""
    only = [("--only", end.suite) for end in night.failed]
    lake_options = [(name, value) for name, value in (("--lake", lake), ("--data", data)) if value]
    options = [("--date", night.date.isoformat()), *only, *lake_options]
    words = (word for option in options for word in option)
    command = shell_line(["gradebook", "suite", "nightly", str(suites), *words])
    first = f"mend what stopped {', '.join(night.to_mend)}, then " if night.to_mend else ""
    stderr.print(f"{escape(plain(first))}go on with the unfinished suites alone:")
    stderr.print(f"  {escape(plain(command))}", soft_wrap=True)


def _print_plans(file: SuitesFile, suite_ids: list[str], night: date | None, *, as_json: bool) -> bool:
    """Print each suite with its number of outputs and the price of judging them, or its fault.

    Returns whether all suites can start.
    """
    now = datetime.now(UTC)
    with shown_progress():
        rows = [_plan_of(file, suite_id, night or now.astimezone().date(), now) for suite_id in suite_ids]
    if as_json:
        print_json({"suites": rows})
    else:
        cells = []
        for row in rows:
            price = None if row["fault"] else price_words(row["cost_usd"])
            anchors = row["anchors"] and price_words(row["anchors"]["cost_usd"])
            cells.append((row["suite"], row["output_count"], row["request_count"], price, anchors, row["fault"]))
        show_rows(("suite", "outputs", "to ask", "estimated", "anchors", "fault"), cells)
        for sentence in filter(None, [*(row["budget_note"] for row in rows), _over_budget(file, rows)]):
            stderr.print(f"note: {plain(sentence)}", markup=False)
    return not any(row["fault"] for row in rows)


def _plan_of(file: SuitesFile, suite_id: str, night: date, now: datetime) -> dict[str, Any]:
    from gradebook.tasks.stages.preview import preview_run  # imports the judge's HTTP client, which is slow

    names = ("output_count", "request_count", "cost_usd", "anchors", "budget_note")
    row: dict[str, Any] = {"suite": suite_id} | dict.fromkeys(names)
    request = suite_request(file[suite_id], night, now, lake=file.lake, data=file.data, budget_usd=file.budget_usd)
    try:
        ingested, plan = preview_run(request)
        row |= {"anchors": _price_anchors(file[suite_id], request)}
    except GradebookError as error:
        return row | {"fault": in_suites_file(str(error))}
    counts = {"output_count": ingested.output_count, "request_count": plan.request_count, "cost_usd": plan.cost_usd}
    note = plan.budget_note and f"{suite_id}: {in_suites_file(plan.budget_note)}"
    return row | counts | {"budget_note": note, "fault": None}


def _over_budget(file: SuitesFile, rows: Sequence[dict[str, Any]]) -> str | None:
    """Note on suites that fit the file's budget one by one, but not together, by their estimates."""
    costs = [row["cost_usd"] for row in rows] + [anchors["cost_usd"] for row in rows if (anchors := row["anchors"])]
    total_usd = sum(cost for cost in costs if cost is not None)
    if file.budget_usd is None or total_usd <= file.budget_usd:
        return None
    return (
        f"budget: all suites are estimated at {price_words(total_usd)}, of {price_words(file.budget_usd)}: those that "
        "come last may not be finished"
    )


def _price_anchors(suite: Suite, request: EvaluationRequest) -> dict[str, object] | None:
    """Number of questions to a suite's anchors and their price; None without anchors."""
    from gradebook.tasks.operations.sentinel import price_watch  # imports the judge's HTTP client, which is slow

    watch = watch_request(suite, request)
    return None if watch is None else price_watch(find_lake(request.lake, request.data), watch)

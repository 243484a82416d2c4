"""The commands `gradebook judge anchors`: fixed outputs on which a judge is watched."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    JsonOption,
    LakeOption,
    complete_run,
    option_of,
    print_json,
    read_date,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, say, show_rows, stderr
from gradebook.rubrics.text.wording import counted, difference_interval_words, price_words, signed_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.operations.anchors import (
    ALPHA,
    PER_NIGHT,
    REFERENCE,
    AnchorChoice,
    WatchRequest,
    list_anchors,
    make_anchors,
)
from gradebook.tasks.system.shell import shell_line


def make(  # noqa: PLR0913 - each is an option
    run: Annotated[str, typer.Argument(help="a published run's id", autocompletion=complete_run)],
    n: Annotated[int, typer.Option("--n", help="number of outputs, chosen at random")] = 150,
    name: Annotated[str | None, typer.Option("--name", help="name of the set; default: the rubric's id")] = None,
    rated: Annotated[bool, typer.Option("--rated", help="only outputs that people rated")] = False,
    stratify: Annotated[
        str | None,
        typer.Option("--stratify", help="equal numbers for each of criterion, level, model, checkpoint; with commas"),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Freeze outputs of a run with their scores as a set of anchors.

    \b
    gradebook judge anchors make 20261101-020000-a1b2c3
    gradebook judge anchors make 20261101-020000-a1b2c3 --n 100 --rated \\
        --stratify criterion,level --name release
    """
    strata = tuple(word.strip() for word in stratify.split(",")) if stratify else ()
    found_lake = find_lake(lake, data)
    anchor_set_row = make_anchors(found_lake, AnchorChoice(run, n, name, rated, strata), datetime.now(UTC))
    if as_json:
        print_json(anchor_set_row)
        return
    rated_words = f", {anchor_set_row['rated_count']:,} rated by people" if anchor_set_row["rated_count"] else ""
    counts = f"{counted(anchor_set_row['output_count'], 'output')}, {counted(anchor_set_row['anchor_count'], 'anchor')}"
    say(f"{anchor_set_row['anchor_set']}: {counts}{rated_words}")
    command = shell_line(("gradebook", "judge", "anchors", "ask", anchor_set_row["anchor_set"], *found_lake.words()))
    count = counted(anchor_set_row["output_count"] * anchor_set_row["criterion_count"] * REFERENCE, "question")
    sentence = f"the first night asks one judge {count}; their price:"
    stderr.print(f"{sentence}\n  {plain(command)} --judge MODEL --dry-run", markup=False, soft_wrap=True)


def list_sets(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the sets of anchors, newest first.

    \b
    gradebook judge anchors list
    """
    rows = list_anchors(find_lake(lake, data))
    if as_json:
        print_json({"anchors": list(rows)})
        return
    if not rows:
        stderr.print("no anchors yet; `gradebook judge anchors make RUN` makes a set of them")
        return
    headings = ("set", "outputs", "anchors", "rated", "rubric", "run", "last night", "state")
    show_rows(headings, [_set_cells(row) for row in rows])


def ask(  # noqa: PLR0913 - each is an option
    anchor_set: Annotated[str, typer.Argument(metavar="SET", help="a set of anchors")],
    judge: Annotated[str, option_of("judge")],
    per_night: Annotated[int, typer.Option("--per-night", help="outputs to ask about")] = PER_NIGHT,
    reference: Annotated[
        int, typer.Option("--reference", help="replies on each output that a new epoch begins with")
    ] = REFERENCE,
    alpha: Annotated[float, typer.Option("--alpha", help="maximum probability of a false alarm in an epoch")] = ALPHA,
    night: Annotated[str | None, typer.Option("--date", help="date of the night; default: today")] = None,
    budget_usd: Annotated[float | None, option_of("budget_usd")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the number of questions and their price")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a judge about anchors again, and report whether it changed.

    The first night of an epoch asks about all outputs several times, as a reference for the others; an alarm, or
    another model behind the judge, begins the next epoch. The e-value is the evidence of a change within the epoch: 1
    is none, and by chance it reaches 20 in at most one epoch of 20, if the replies of a night are independent: a shock
    to a whole night, such as an endpoint under load, raises alarms too. A night that is stored is only shown again.
    Nightly runs ask by themselves if a suite has the key `anchors`.

    \b
    gradebook judge anchors ask release --judge gpt-4o-mini --dry-run
    gradebook judge anchors ask release --judge gpt-4o-mini --budget-usd 1

    Exit: 0 no alarm, 1 the judge changed, 2 bad input, 3 the judge did not answer or the budget is reached.
    """
    from gradebook.tasks.operations.sentinel import price_watch, watch_judge

    now = datetime.now(UTC)
    day = now.astimezone().date() if night is None else read_date(night)
    request = WatchRequest(anchor_set, judge, day, per_night, reference, alpha, budget_usd)
    found_lake = find_lake(lake, data)
    if dry_run:
        price = price_watch(found_lake, request)
        if as_json:
            print_json(price)
        else:
            say(f"{counted(price['question_count'], 'question')}, about {price_words(price['cost_usd'])}")
        return
    with shown_progress():
        watch = watch_judge(found_lake, request, now)
    if as_json:
        print_json(watch.as_json())
    else:
        show_rows(("criterion", "n", "gap", "95% interval", "to people", "e-value", "state"), map(_cells, watch.rows))
        for sentence in (watch.sentence, *watch.notes):
            say(plain(sentence))
    raise typer.Exit(NOT_MET if watch.is_drifted else DONE)


def _set_cells(row: Row) -> tuple[str, ...]:
    return (
        row["anchor_set"],
        f"{row['output_count']:,}",
        f"{row['anchor_count']:,}",
        f"{row['rated_count']:,}",
        f"{row['rubric_id']} {row['rubric_version']}",
        row["run_id"],
        "" if row["last_night"] is None else f"{row['last_night']}",
        row["state"] or "not asked yet",
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["criterion_id"],
        f"{row['n']:,}",
        signed_words(row["mean_gap"]),
        difference_interval_words(row["gap_low"], row["gap_high"]),
        signed_words(row["people_gap"]),
        f"{row['e_value']:.3g}",
        row["state"],
    )

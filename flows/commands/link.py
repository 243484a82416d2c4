"""The command `gradebook rubric link`: two versions of a rubric on the same outputs."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    ComparedOption,
    DataOption,
    JsonOption,
    LakeOption,
    complete_rubric,
    option_of,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import say, show_rows
from gradebook.rubrics.text.wording import counted, difference_interval_words, interval_words, signed_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row


def link(  # noqa: PLR0913 - each is an option
    old: Annotated[
        str, typer.Argument(help="the earlier version: ID@VERSION or a file", autocompletion=complete_rubric)
    ],
    new: Annotated[str, typer.Argument(help="the later version: ID@VERSION or a file", autocompletion=complete_rubric)],
    anchors: Annotated[str, typer.Option("--anchors", help="a set of anchors, 150 outputs or more")],
    judge: Annotated[str | None, option_of("judge")] = None,
    budget_usd: Annotated[float | None, option_of("budget_usd")] = None,
    baseline: ComparedOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how two versions of a rubric score the same outputs.

    The difference is stored, and shown where a trend crosses the versions. Published runs do not change. Replies that
    the ledger has are not paid for again.

    \b
    gradebook rubric link support_reply@1.0.0 rubric.yaml --anchors release \\
        --judge judge.yaml --budget-usd 2

    Exit: 0 done, 2 bad input, 3 the judge did not answer or the budget is reached.
    """
    from gradebook.tasks.operations.linking import USUAL_CASES, LinkRequest, link_rubrics

    request = LinkRequest(old, new, anchors, judge, budget_usd, baseline)
    with shown_progress():
        rows = link_rubrics(find_lake(lake, data), request, datetime.now(UTC))
    if as_json:
        print_json({"links": list(rows)})
        return
    show_rows(("scope", "new - old", "95% interval", "sd ratio", "interval", "slope", "cases"), map(_cells, rows))
    first = rows[0]
    _, difference, interval, *_ = _cells(first)
    names = f"{first['rubric_id']} {first['new_version']} minus {first['old_version']}"
    say(f"{names} on the same outputs: {difference} (95% interval {interval}), stored for trends")
    if first["case_count"] < USUAL_CASES:
        say(f"note: {counted(first['case_count'], 'case')}; {USUAL_CASES} or more give a useful interval")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["scope_id"] or "overall",
        signed_words(row["offset_mean"]),
        difference_interval_words(row["offset_low"], row["offset_high"]),
        "–" if row["sd_ratio"] is None else f"{row['sd_ratio']:.3f}",
        interval_words(row["sd_ratio_low"], row["sd_ratio_high"]),
        "" if row["slope"] is None else f"{row['slope']:.3f}",
        f"{row['case_count']:,}",
    )

"""The command `gradebook runs`."""

from rich.markup import escape

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import plain, say, show_rows, stderr
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.run_tables import mean_words, weakest_words
from gradebook.tasks.published.summary import list_runs_with_verdicts

HEADINGS = (
    "run",
    "status",
    "verdict",
    "mean",
    "lowest criterion",
    "rubric",
    "outputs",
    "billed",
    "judge",
    "version",
    "dataset",
)


def runs(
    at: AtOption = None, lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the runs of a lake, newest first.

    The mean is that of the run's model; of several models, the lowest and the highest. The reasons of failed runs
    follow the table.

    \b
    gradebook runs
    gradebook runs --at 2026-11-01 --json
    """
    rows = list_runs_with_verdicts(read_lake(lake, data, at))
    if as_json:
        print_json({"runs": list(rows)})
    elif rows:
        show_rows(HEADINGS, map(_cells, rows))
        reasons = ((row, row["reason"].partition("\n")[0]) for row in rows if row["reason"])
        say(*(f"{row['run_id']} {row['status']}: {reason}" for row, reason in reasons))
    else:
        stderr.print(f"no run in {escape(plain(lake))}; `gradebook evaluate` makes one")


def _cells(row: Row) -> tuple[object, ...]:
    return (
        row["run_id"],
        row["status"],
        row["verdict"],
        mean_words(row),
        weakest_words(row),
        f"{row['rubric_id']} {row['rubric_version']}",
        "" if row["output_count"] is None else f"{row['output_count']:,}{' (stopped)' if row['stopped_at'] else ''}",
        price_words(row["cost_usd"]),
        row["judge"],
        row["version"],
        row["dataset"],
    )

"""The command `gradebook`. What a command needs is imported when it runs: `--help` and `sql` start at once."""

import sys
import tempfile
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradebook.flows.commands import agreement as agreement_commands
from gradebook.flows.commands import check as check_commands
from gradebook.flows.commands import checkpoint as checkpoint_commands
from gradebook.flows.commands import collect as collect_commands
from gradebook.flows.commands import compare as compare_commands
from gradebook.flows.commands import cost as cost_commands
from gradebook.flows.commands import doctor as doctor_commands
from gradebook.flows.commands import ledger as ledger_commands
from gradebook.flows.commands import nightly as nightly_commands
from gradebook.flows.commands import noise as noise_commands
from gradebook.flows.commands import power as power_commands
from gradebook.flows.commands import ratings as ratings_commands
from gradebook.flows.commands import rebuild as rebuild_commands
from gradebook.flows.commands import report as report_commands
from gradebook.flows.commands import review as review_commands
from gradebook.flows.commands import rubric as rubric_commands
from gradebook.flows.commands import site as site_commands
from gradebook.flows.commands import status as status_commands
from gradebook.flows.commands import version as version_commands
from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_FINISHED,
    NOT_MET,
    AllowFunctionsOption,
    AtOption,
    BaselineOption,
    DataOption,
    DeadlineOption,
    FailIfOption,
    FeedbackOption,
    JsonOption,
    LakeOption,
    LogOption,
    MapOption,
    RecordOption,
    RunnerOption,
    print_json,
)
from gradebook.rubrics.model.errors import GradebookError, InputError

if TYPE_CHECKING:
    from gradebook.tasks.published.summary import RunSummary
    from gradebook.tasks.runs.request import EvaluationRequest

INTERRUPTED = 130  # what typer makes of Ctrl-C, without a word
DEMO_LAKE = "sqlite:demo-lake/catalog.sqlite"

app = typer.Typer(
    name="gradebook",
    help="""Evaluate the outputs of generative models with a rubric; query the results in SQL.

    \b
    gradebook demo
    gradebook evaluate outputs.jsonl --rubric general_answer --judge gpt-4o-mini --budget-usd 5
    gradebook sql "select model, mean, ci_low, ci_high from run_scores"
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(check_commands.app, name="checks")
app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(ratings_commands.app, name="ratings")
app.add_typer(rubric_commands.app, name="rubric")
app.command()(report_commands.report)
app.command()(review_commands.review)
app.command()(collect_commands.collect)
app.command()(compare_commands.compare)
app.command()(noise_commands.noise)
app.command()(power_commands.power)
app.command()(rebuild_commands.rebuild)
app.command()(rebuild_commands.rescore)
app.command()(cost_commands.cost)
app.command()(agreement_commands.agreement)
app.command()(agreement_commands.calibrate)
app.command()(site_commands.site)
app.command()(status_commands.status)
app.command()(version_commands.versions)
app.command()(doctor_commands.doctor)
app.add_typer(checkpoint_commands.app, name="notify")
app.command()(checkpoint_commands.sweep)
app.command()(checkpoint_commands.checkpoints)
app.command()(nightly_commands.nightly)
app.command()(nightly_commands.compact)


class Format(StrEnum):
    """How `gradebook sql` writes rows."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


@app.command()
def demo(lake: LakeOption = DEMO_LAKE) -> None:
    """Evaluate the shipped example: support replies of two models, no key needed.

    The judge's replies are recorded; the lake is made in the folder demo-lake.
    """
    from gradebook.flows.commands.demo import run_demo

    run_demo(lake)


@app.command()
def evaluate(  # noqa: PLR0913 - each is an option
    outputs: Annotated[
        str, typer.Argument(help="JSON Lines, CSV or Parquet, plain, .gz or .zst; a file, folder or glob")
    ],
    rubric: Annotated[
        str, typer.Option("--rubric", help="a rubric file, a shipped rubric's name, ID@VERSION of the lake, or none")
    ],
    judge: Annotated[str | None, typer.Option("--judge", help="a model's name, a judge file, or replay:FILE")] = None,
    ratings: Annotated[str | None, typer.Option("--ratings", help="a file of people's ratings")] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="name the run; default: a time and a number")] = None,
    budget_usd: Annotated[float | None, typer.Option("--budget-usd", help="dollars that are never passed")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan and its price, and stop")] = False,
    column_map: MapOption = None,
    max_bad_rate: Annotated[float, typer.Option("--max-bad-rate", help="share of rows that may not fit")] = 0.01,
    allow_unscored: Annotated[
        bool, typer.Option("--allow-unscored", help="go on where nothing scores a criterion's method")
    ] = False,
    feedback: FeedbackOption = None,
    record: RecordOption = None,
    deadline: DeadlineOption = None,
    baseline: BaselineOption = None,
    fail_if: FailIfOption = None,
    allow_functions: AllowFunctionsOption = None,
    runner: RunnerOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
    _log: LogOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="show Prefect's log on stderr")] = False,
) -> None:
    """Score outputs with a rubric and publish the evaluation tables.

    The same command again goes on where it stopped; what was judged once is not asked again.

    \b
    gradebook evaluate outputs.jsonl --rubric rubric.yaml
    gradebook evaluate "night/*.parquet" --rubric general_answer --judge gpt-4o-mini --dry-run
    gradebook evaluate outputs.csv --rubric json_record --map output=response --json
    gradebook evaluate outputs.jsonl --rubric rubric.yaml --baseline latest --fail-if "mean_diff < 0 and p < 0.05"

    Exit: 0 done, 1 a gate or threshold is not met or --fail-if holds, 2 bad input, 3 not finished.
    """
    from gradebook.tasks.judging.settings.deadline import read_deadline
    from gradebook.tasks.runs.request import EvaluationRequest
    from gradebook.tasks.stages.preview import read_column_map

    mapped = read_column_map(column_map or [])
    request = EvaluationRequest(
        outputs, rubric, judge, ratings, lake, data, run_id, budget_usd, max_bad_rate, mapped, allow_unscored, feedback
    )
    done_by = None if deadline is None else read_deadline(deadline, datetime.now(UTC))
    request = replace(request, allow_functions=tuple(allow_functions or ()), record=record, deadline=done_by)
    request = replace(request, baseline=baseline, fail_if=fail_if, runner=runner)
    if dry_run:
        _print_plan(request, as_json=as_json)
        return
    from gradebook.flows.server.start import evaluate_here

    summary, report = evaluate_here(request, is_verbose=verbose)
    _tell_summary(summary, report, as_json=as_json)
    raise typer.Exit(DONE if summary.is_met else NOT_MET)


@app.command()
def runs(
    at: AtOption = None, lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the runs of a lake, the newest first."""
    from gradebook.flows.display.terminal import show_rows
    from gradebook.tasks.lake.versions import find_lake_at
    from gradebook.tasks.published.summary import list_runs

    rows = list_runs(find_lake_at(lake, data, at))
    if as_json:
        print_json({"runs": list(rows)})
    elif rows:
        for row in rows:
            row["reason"] = (row["reason"] or "").partition("\n")[0]
        show_rows(rows[0], (row.values() for row in rows))


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="one statement that reads")],
    form: Annotated[Format, typer.Option("--format", help="how to write the rows")] = Format.table,
    out: Annotated[Path | None, typer.Option("--out", help="write to this file; default: stdout")] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Ask the evaluation tables in SQL (DuckDB's), read only.

    \b
    gradebook sql "select * from run_scores"
    gradebook sql "select criterion_id, avg(mean) from criterion_scores group by all" --format csv
    gradebook sql "from output_scores" --at 12 --format parquet --out scores.parquet
    gradebook sql "select count(*) from ratings" --at 2026-11-01T09:30
    """
    from gradebook.flows.display.tables import write_rows
    from gradebook.tasks.lake.user_queries import run_query
    from gradebook.tasks.lake.versions import find_lake_at

    if form is Format.parquet and out is None:
        raise InputError("--out: found none, expected a file for --format parquet")
    write_rows(run_query(find_lake_at(lake, data, at), query), form.value, out)


def main() -> None:
    """Run the command; every foreseen failure ends as a sentence on stderr and an exit code."""
    try:
        app(prog_name="gradebook")
    except GradebookError as error:
        _tell(str(error))
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        _tell("interrupted; the same command goes on where it stopped")
        sys.exit(NOT_FINISHED)
    except BrokenPipeError:
        sys.exit(DONE)
    except Exception as error:  # noqa: BLE001 - the last edge: the traceback is kept, a sentence is shown
        _tell(f"unexpected {type(error).__name__}: {error} (traceback in {_keep_traceback()})")
        sys.exit(NOT_FINISHED)


def _tell(sentence: str) -> None:
    """Say on stderr what went wrong; control characters of a file or a name can't steer the terminal."""
    shown = (letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in sentence)
    typer.echo(f"gradebook: {''.join(shown)}", err=True)


def _tell_summary(summary: "RunSummary", report: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.as_json() | {"report": str(report)})
        return
    from gradebook.flows.display.summary import show_summary

    show_summary(summary, str(report))


def _print_plan(request: "EvaluationRequest", *, as_json: bool) -> None:
    from dataclasses import asdict

    from gradebook.flows.display.progress_bars import shown_progress
    from gradebook.flows.display.summary import show_plan
    from gradebook.tasks.stages.preview import preview_run

    with shown_progress():
        ingested, plan = preview_run(request)
    if as_json:
        print_json(
            {
                "output_count": ingested.output_count,
                "request_count": plan.request_count,
                "replayed_count": plan.replayed_count,
                "cost_usd": plan.cost_usd,
                "cost_low_usd": plan.cost_low_usd,
                "cost_high_usd": plan.cost_high_usd,
                "criteria": [asdict(criterion) for criterion in plan.criteria],
            }
        )
    else:
        show_plan(plan, ingested.output_count, request.budget_usd)


def _keep_traceback() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gradebook-", suffix=".log", delete=False) as file:
        file.write(traceback.format_exc())
    return file.name


if __name__ == "__main__":
    main()

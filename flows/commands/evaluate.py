"""`gradebook evaluate`."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    AllowFunctionsOption,
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
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest


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


def _tell_summary(summary: RunSummary, report: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.as_json() | {"report": str(report)})
        return
    from gradebook.flows.display.summary import show_summary

    show_summary(summary, str(report))


def _print_plan(request: EvaluationRequest, *, as_json: bool) -> None:
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

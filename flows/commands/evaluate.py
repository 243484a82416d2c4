"""The command `gradebook evaluate`."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import (
    DONE,
    NOT_MET,
    JsonOption,
    LogOption,
    PrefectOption,
    print_json,
    takes_options,
)
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest, Use, read_request
from gradebook.tasks.workspace.folder import RunFolder, report_url


@takes_options(Use.COMMAND)
def evaluate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the plan with its price, and stop", rich_help_panel="Money")
    ] = False,
    as_json: JsonOption = False,
    _log: LogOption = None,
    has_page: Annotated[
        bool, typer.Option("--report/--no-report", help="write the report's page", rich_help_panel="Run")
    ] = True,
    prefect: PrefectOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="show Prefect's log on stderr", rich_help_panel="Run")
    ] = False,
    **options: Any,
) -> None:
    """Score outputs with a rubric and publish the evaluation tables.

    Run the same command again to resume; stored judgments are not paid for again.

    \b
    gradebook evaluate outputs.jsonl --rubric rubric.yaml
    gradebook evaluate "night/*.parquet" --rubric general_answer \\
        --judge gpt-4o-mini --dry-run
    gradebook evaluate outputs.csv --rubric json_record \\
        --map output=response --json
    gradebook evaluate outputs.jsonl --rubric rubric.yaml --baseline latest \\
        --require "not_worse_by(0.02)"

    Exit: 0 done, 1 a gate or threshold is not met, 2 bad input, 3 not finished.
    """
    request = replace(read_request(options, datetime.now(UTC)), has_page=has_page)
    if dry_run:
        _print_plan(request, as_json=as_json)
        return
    from gradebook.flows.evaluate_here import evaluate_here, report_of

    summary = evaluate_here(request, prefect=prefect, is_verbose=verbose)
    report = report_of(request, summary) if has_page else None
    _print_summary(summary, report, find_lake(request.lake, request.data).words(), as_json=as_json)
    raise typer.Exit(DONE if summary.is_met else NOT_MET)


def _print_summary(summary: RunSummary, report: Path | None, lake: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(summary.as_json() | {"report": None if report is None else str(report)})
        return
    from gradebook.flows.display.summary import show_summary

    show_summary(summary, None if report is None else report_url(RunFolder(report.parent)), lake)


def _print_plan(request: EvaluationRequest, *, as_json: bool) -> None:
    from gradebook.flows.display.progress_bars import shown_progress
    from gradebook.flows.display.summary import show_plan
    from gradebook.flows.display.terminal import stderr
    from gradebook.tasks.stages.preview import preview_run

    with shown_progress():
        ingested, plan = preview_run(request)
    if as_json:
        print_json(
            {
                "output_count": ingested.output_count,
                "sample": asdict(ingested.sample) if ingested.sample else None,
                "stop": asdict(plan.stop) if plan.stop else None,
                "gate_note": plan.shown,
                "budget_note": plan.budget_note,
                "notes": list(plan.notes),
                **plan.as_json(),
            }
        )
    else:
        show_plan(plan, ingested.output_count, request.budget_usd)
        sentences = (
            plan.budget_note,
            plan.stop and plan.stop.sentence,
            plan.shown,
            ingested.sample and ingested.sample.sentence,
            *plan.notes,
        )
        for sentence in filter(None, sentences):
            stderr.print(f"note: {sentence}", markup=False)

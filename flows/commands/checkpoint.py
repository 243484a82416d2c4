"""The commands `gradebook suite checkpoint`, `sweep` and `checkpoints`: decisions made, missing, and listed."""

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gradebook.flows.commands.notify import DeploymentOption, ParamOption, read_parameters
from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_FINISHED,
    NOT_MET,
    DataOption,
    JsonOption,
    LakeOption,
    MapOption,
    PrefectOption,
    print_json,
    takes_options,
)
from gradebook.flows.deployment.notify import DEPLOYMENT
from gradebook.flows.deployment.sweep import SweepRequest, Swept, sweep_saved
from gradebook.flows.display.comparison import show_run_comparison
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import filled_columns, plain, say, show_rows, stderr, stdout
from gradebook.flows.run import run_here
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.rubrics.text.wording import difference_interval_words, score_words, signed_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint import CheckpointDecision, CheckpointRequest, decide_checkpoint
from gradebook.tasks.operations.checkpoint_decisions import list_checkpoints
from gradebook.tasks.runs.request import Use, json_values, options_of, read_column_map, read_request
from gradebook.tasks.stages.submit import StagesInThreads
from gradebook.tasks.workspace.folder import RunFolder, report_url


def show_decision(decision: CheckpointDecision) -> None:
    """Print the decision with its reasons, then the comparisons with the last run and the best checkpoint."""
    row, colour = decision.row, "green" if decision.is_approved else "yellow" if decision.is_undecided else "red"
    status = row["status"].replace("_", " ")
    stdout.print(f"[bold {colour}]{escape(plain(row['model']))} @ {escape(plain(row['checkpoint']))}: {status}[/]")
    for reason in row["reasons"]:
        stdout.print(f"- {escape(plain(reason))}")
    rubric = f"{row['rubric_id']} {row['rubric_version']}"
    stdout.print(f"mean {score_words(row['mean'])} by {escape(plain(rubric))}, run {row['run_id']}")
    if not decision.is_new:
        stdout.print("decided earlier; nothing was evaluated again")
    if decision.note:
        stdout.print(escape(plain(decision.note)))
    for comparison in filter(None, (decision.latest, decision.best if decision.best is not decision.latest else None)):
        show_run_comparison(comparison)
    report = report_url(RunFolder(Path(decision.report).parent))
    stdout.print(f"report {escape(plain(report))}", soft_wrap=True)


_NAMING = 4  # leading columns, which name a checkpoint; the columns of its flow run may be empty


@takes_options(Use.CHECKPOINT_FLOW)
def checkpoint(  # noqa: PLR0913 - each is an option
    model: Annotated[str, typer.Option("--model", help="the trained model, as in the outputs")],
    step: Annotated[int | None, typer.Option("--step", help="training step")] = None,
    name: Annotated[
        str | None, typer.Option("--checkpoint", help="checkpoint name; default: the outputs' column, or the step")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="approved checkpoint to compare with in place of the best one")
    ] = None,
    series: Annotated[
        str | None, typer.Option("--series", help="looks of the gate, as method=lord,alpha=0.05,looks=31")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="dataset of prompts to collect OUTPUTS for first; with --endpoint")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", help="endpoint that serves the checkpoint: a model name or an endpoint file"),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="outputs per prompt")] = 1,
    collect_budget_usd: Annotated[
        float | None, typer.Option("--collect-budget-usd", help="maximum spend on collecting, in US dollars")
    ] = None,
    prefect: PrefectOption = None,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Evaluate a training checkpoint, and approve it or not.

    Its outputs are scored, and compared with the last run and the best checkpoint so far. A decision is made once for
    each model, checkpoint, rubric version and content of the outputs; the same command again shows it. Where a rule
    can't be checked the checkpoint is undecided, and the same command decides again.

    \b
    gradebook suite checkpoint outputs/step-1200.jsonl --model support \\
        --step 1200 --rubric support_reply@1.0.0
    gradebook suite checkpoint outputs/sft-2.jsonl --model support \\
        --checkpoint sft-2 --rubric general_answer --judge gpt-4o-mini \\
        --require "not_worse_by(0.02)" --json

    Exit: 0 approved, 1 needs a revision or undecided, 2 bad input, 3 not finished.
    """
    request = CheckpointRequest(
        read_request(options, datetime.now(UTC)),
        model,
        name,
        step,
        prompts=prompts,
        endpoint=endpoint,
        samples=samples,
        collect_budget_usd=collect_budget_usd,
        reference=reference,
        series=series,
    )
    with shown_progress():
        decision = _decide(request, prefect=prefect)
    if as_json:
        print_json(decision.as_json())
    else:
        show_decision(decision)
    raise typer.Exit(DONE if decision.is_approved else NOT_MET)


def _decide(request: CheckpointRequest, *, prefect: bool | None) -> CheckpointDecision:
    parameters = {field.name: getattr(request, field.name) for field in fields(request) if field.name != "evaluation"}
    return run_here(
        lambda: decide_checkpoint(request, StagesInThreads()),
        "evaluate_checkpoint:evaluate_checkpoint",
        json_values(request.evaluation, Use.CHECKPOINT_FLOW) | parameters,
        prefect=prefect,
    )


def sweep(  # noqa: PLR0913 - each is an option
    rubric: Annotated[str, typer.Option("--rubric", help="rubric of the decision, as in the deployment's parameters")],
    place: Annotated[
        str | None, typer.Argument(help="checkpoints' outputs: a folder or glob, or a file with a table of them")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="SQL over the lake instead of PLACE; columns: model, checkpoint or step, outputs"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="model name, if paths do not contain it")] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", help="end of the paths, such as checkpoint-{step}/outputs.jsonl or {model}/{checkpoint}"
        ),
    ] = None,
    is_notifying: Annotated[
        bool, typer.Option("--notify/--list", help="ask the server's deployment for decisions, or only list")
    ] = False,
    is_evaluating: Annotated[
        bool, typer.Option("--evaluate", help="decide about each here, in turn, with --param as options")
    ] = False,
    deployment: DeploymentOption = DEPLOYMENT,
    param: ParamOption = None,
    column_map: MapOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    prefect: PrefectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find checkpoints without a decision; --evaluate decides about them.

    --evaluate decides here, in turn; --notify asks a Prefect server to.

    \b
    gradebook suite sweep outputs --model support --rubric support_reply@1.0.0
    gradebook suite sweep outputs --model support --rubric support_reply@1.0.0 \\
        --evaluate --param judge=gpt-4o-mini
    gradebook suite sweep "runs/*/eval" --rubric support_reply@1.0.0 \\
        --pattern "{model}/eval/step-{step}.jsonl" --notify
    gradebook suite sweep saved.csv --rubric support_reply@1.0.0 --notify
    gradebook suite sweep --query "select * from saved" \\
        --rubric support_reply@1.0.0 --json

    Exit: 0 done, 2 bad input, 3 outputs can't be read, a decision is missing, no answer from a server, or all flow runs
    for one failed.
    """
    request = SweepRequest(
        rubric,
        place=place,
        query=query,
        model=model,
        pattern=pattern,
        deployment=deployment,
        parameters=read_parameters(param or []),
        column_map=read_column_map(column_map or []),
        lake=lake,
        data=data,
    )
    if is_notifying and is_evaluating:
        raise InputError("sweep", "both --notify and --evaluate", "one of them")
    swept = sweep_saved(request, is_notifying=is_notifying)
    outcomes = _evaluate_all(swept, request, prefect=prefect) if is_evaluating else ()
    if as_json:
        decided = {
            "decisions": [decision.as_json() for decision in outcomes if isinstance(decision, CheckpointDecision)]
        }
        print_json(swept.as_json() | (decided if is_evaluating else {}))
    else:
        _show_sweep(swept, is_asking=is_notifying or is_evaluating)
        for end in outcomes:
            show_decision(end) if isinstance(end, CheckpointDecision) else stdout.print(f"[red]{escape(plain(end))}[/]")
    if any(isinstance(end, str) for end in outcomes):
        raise typer.Exit(NOT_FINISHED)
    if swept.faults:
        raise typer.Exit(NOT_FINISHED)


def checkpoints(
    model: Annotated[str | None, typer.Option("--model", help="only this model")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the decisions about checkpoints, newest first.

    \b
    gradebook suite checkpoints
    gradebook suite checkpoints --model support --json
    """
    rows = list_checkpoints(find_lake(lake, data), model)
    if as_json:
        print_json({"checkpoints": list(rows)})
        return
    cells = (
        (
            row["model"],
            row["checkpoint"],
            row["status"],
            row["run_id"],
            score_words(row["mean"]),
            signed_words(row["best_diff"]),
            difference_interval_words(row["best_diff_low"], row["best_diff_high"]),
            f"{row['rubric_id']} {row['rubric_version']}",
            f"{row['decided_at']:%Y-%m-%d %H:%M}",
            (row["reasons"] or [""])[0],
        )
        for row in rows
    )
    if not rows:
        stderr.print("no checkpoint has a decision yet; `gradebook suite sweep` finds those without")
        return
    more_headings = ("run", "mean", "to the best", "95% interval", "rubric", "decided", "reason")
    show_rows(("model", "checkpoint", "status", *more_headings), cells)


def _evaluate_all(swept: Swept, request: SweepRequest, *, prefect: bool | None) -> tuple[CheckpointDecision | str, ...]:
    """Decide about each checkpoint in turn; returns a decision or a fault for each.

    Raises `InputError` for a parameter that is no option of `gradebook suite checkpoint`.
    """
    option_names = {option.name for option in options_of(Use.CHECKPOINT_FLOW)} - {"outputs", "rubric", "lake", "data"}
    if unknown := sorted(request.parameters.keys() - option_names):
        raise InputError("--param", repr(unknown[0]), unknown_word(unknown[0], sorted(option_names)))
    location = {"rubric": request.rubric, "lake": request.lake, "data": request.data}
    outcomes: list[CheckpointDecision | str] = []
    with shown_progress():
        for saved, _ in swept.undecided:
            if saved.fault is not None:
                continue
            options = {"column_map": request.column_map, **request.parameters, **location, "outputs": saved.outputs}
            evaluation = read_request(options, datetime.now(UTC))
            try:
                checkpoint_request = CheckpointRequest(evaluation, saved.model, saved.checkpoint, saved.step)
                outcomes.append(_decide(checkpoint_request, prefect=prefect))
            except GradebookError as error:
                outcomes.append(f"{saved.name}: {error}")
    return tuple(outcomes)


def _show_sweep(swept: Swept, *, is_asking: bool) -> None:
    if swept.undecided:
        cells = []
        for saved, notified in swept.undecided:
            flow_run = ("", saved.fault or "") if notified is None else (notified.flow_run_id, notified.state)
            cells.append((saved.model, saved.checkpoint, saved.step, saved.outputs, *flow_run))
        headings = ("model", "checkpoint", "step", "outputs", "flow run", "state")
        show_rows(*filled_columns(headings, cells, _NAMING))
    say(swept.sentence)
    if swept.undecided and not is_asking:
        stderr.print("the same command with --evaluate decides about them here, with --notify on a Prefect server")

"""The commands `gradebook sweep` and `gradebook checkpoints`: checkpoints without a decision, and decisions."""

from typing import Annotated

import typer

from gradebook.flows.commands.notify import DeploymentOption, ParamOption, read_parameters
from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    NOT_FINISHED,
    DataOption,
    JsonOption,
    LakeOption,
    MapOption,
    print_json,
)
from gradebook.flows.deployment.notify import DEPLOYMENT
from gradebook.flows.deployment.sweep import SweepRequest, Swept, sweep_saved
from gradebook.flows.display.terminal import filled_columns, notes, say, show_rows
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_decisions import list_checkpoints
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.system.number_format import difference_interval_words, score_words, signed_words

_NAMING = 4  # columns that name a checkpoint; those of its flow run may be empty


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
        bool, typer.Option("--notify/--list", help="submit evaluations, or only list checkpoints")
    ] = False,
    deployment: DeploymentOption = DEPLOYMENT,
    param: ParamOption = None,
    column_map: MapOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find checkpoints without a decision; --notify evaluates them.

    \b
    gradebook sweep outputs --model support --rubric support_reply@1.0.0
    gradebook sweep "runs/*/eval" --pattern "{model}/eval/step-{step}.jsonl" \\
        --rubric support_reply@1.0.0 --notify
    gradebook sweep saved.csv --rubric support_reply@1.0.0 --notify
    gradebook sweep --query "select * from saved" \\
        --rubric support_reply@1.0.0 --json

    Exit: 0 done, 2 bad input, 3 outputs can't be read, no answer from a server, or all flow runs for one failed.
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
    swept = sweep_saved(request, is_notifying=is_notifying)
    if as_json:
        print_json(swept.as_json())
    else:
        _show_sweep(swept, is_notifying=is_notifying)
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
    gradebook checkpoints
    gradebook checkpoints --model support --json
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
        notes.print("no checkpoint has a decision yet; `gradebook sweep` finds those without")
        return
    words = ("run", "mean", "to the best", "95% interval", "rubric", "decided", "reason")
    show_rows(("model", "checkpoint", "status", *words), cells)


def _show_sweep(swept: Swept, *, is_notifying: bool) -> None:
    if swept.undecided:
        cells = []
        for saved, notified in swept.undecided:
            flow_run = ("", saved.fault or "") if notified is None else (notified.flow_run_id, notified.state)
            cells.append((saved.model, saved.checkpoint, saved.step, saved.outputs, *flow_run))
        headings = ("model", "checkpoint", "step", "outputs", "flow run", "state")
        show_rows(*filled_columns(headings, cells, _NAMING))
    say(swept.sentence)
    if swept.undecided and not is_notifying:
        notes.print("the same command with --notify evaluates them")

"""The commands about checkpoints: `gradebook notify checkpoint`, `gradebook sweep` and `gradebook checkpoints`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    NOT_FINISHED,
    DataOption,
    JsonOption,
    LakeOption,
    MapOption,
    print_json,
)
from gradebook.flows.deployment.notify import DEPLOYMENT, MOST_TRIES, Notified, notify_checkpoint
from gradebook.rubrics.model.errors import InputError

if TYPE_CHECKING:
    from gradebook.flows.deployment.sweep import Swept

DeploymentOption = Annotated[str, typer.Option("--deployment", help="FLOW/DEPLOYMENT on the Prefect server")]
ParamOption = Annotated[
    list[str] | None, typer.Option("--param", help="a parameter of the flow, as budget_usd=5; may be repeated")
]

app = typer.Typer(help="Tell a Prefect server what there is to evaluate.", no_args_is_help=True, rich_markup_mode=None)


@app.command("checkpoint")
def notify(  # noqa: PLR0913 - each is an option
    outputs: Annotated[
        str, typer.Argument(help="the checkpoint's outputs: a file, folder or glob; to collect: a .jsonl file")
    ],
    model: Annotated[str, typer.Option("--model", help="the model, as the outputs name it")],
    step: Annotated[int | None, typer.Option("--step", help="the training step")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="its name; default: the column of the outputs, or the step")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="collect the outputs first: a dataset of prompts; with --endpoint")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="who serves the checkpoint: a model's name, or an endpoint file")
    ] = None,
    deployment: DeploymentOption = DEPLOYMENT,
    param: ParamOption = None,
    event: Annotated[bool, typer.Option("--event", help="send the event checkpoint.saved too")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the Prefect server of PREFECT_API_URL to evaluate a checkpoint, and return at once.

    Asked twice for the same outputs, it is one flow run; one that failed or crashed is followed by another. With
    --prompts and --endpoint the flow asks the checkpoint for its outputs first, into a file that need not be there yet.

    \b
    gradebook notify checkpoint outputs/step-1200.jsonl --model support --step 1200
    gradebook notify checkpoint outputs/ --model support --checkpoint sft-2 --param budget_usd=5 --json
    gradebook notify checkpoint step-1200.jsonl --model support --step 1200 --prompts prompts.jsonl --endpoint e.yaml

    Exit: 0 asked, or asked before, 2 bad input, 3 no server answers, or all flow runs for it failed.
    """
    notified = notify_checkpoint(
        outputs,
        model,
        step=step,
        checkpoint=checkpoint,
        prompts=prompts,
        endpoint=endpoint,
        deployment=deployment,
        parameters=_parameters(param or []),
        has_event=event,
    )
    if as_json:
        print_json(notified.as_json())
    else:
        typer.echo(_told(notified))
    if notified.is_given_up:
        raise typer.Exit(NOT_FINISHED)


def sweep(  # noqa: PLR0913 - each is an option
    rubric: Annotated[str, typer.Option("--rubric", help="the rubric that decides, as the deployment names it")],
    place: Annotated[
        str | None, typer.Argument(help="a folder or a glob of checkpoints' outputs, or a file with a table of them")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="in place of it, SQL over the lake: model, checkpoint or step, outputs"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="the model, where no path names it")] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", help="how paths end: checkpoint-{step}/outputs.jsonl, {model}/{checkpoint}"),
    ] = None,
    is_notifying: Annotated[
        bool, typer.Option("--notify/--list", help="have each evaluated, or only list them")
    ] = False,
    deployment: DeploymentOption = DEPLOYMENT,
    param: ParamOption = None,
    column_map: MapOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find outputs of checkpoints that were never decided about; with --notify have each evaluated.

    \b
    gradebook sweep outputs --model support --rubric support_reply@1.0.0
    gradebook sweep "runs/*/eval" --pattern "{model}/eval/step-{step}.jsonl" --rubric support_reply@1.0.0 --notify
    gradebook sweep saved.csv --rubric support_reply@1.0.0 --notify
    gradebook sweep --query "select * from saved" --rubric support_reply@1.0.0 --json

    Exit: 0 done, 2 bad input, 3 outputs can't be read, no server answers, or all flow runs for one failed.
    """
    from gradebook.flows.deployment.sweep import SweepRequest, sweep_saved
    from gradebook.tasks.runs.request import read_column_map

    request = SweepRequest(
        rubric,
        place=place,
        query=query,
        model=model,
        pattern=pattern,
        deployment=deployment,
        parameters=_parameters(param or []),
        column_map=read_column_map(column_map or []),
        lake=lake,
        data=data,
    )
    swept = sweep_saved(request, is_notifying=is_notifying)
    if as_json:
        print_json(swept.as_json())
    else:
        _show_sweep(swept)
    if swept.faults:
        raise typer.Exit(NOT_FINISHED)


def checkpoints(
    model: Annotated[str | None, typer.Option("--model", help="of this model alone")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was decided about checkpoints, the newest first.

    \b
    gradebook checkpoints
    gradebook checkpoints --model support --json
    """
    from gradebook.flows.display.terminal import show_rows
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.operations.checkpoint_decisions import list_checkpoints
    from gradebook.tasks.system.number_format import score_words, signed_words, span_words

    rows = list_checkpoints(find_lake(lake, data), model)
    if as_json:
        print_json({"checkpoints": list(rows)})
        return
    cells = (
        (
            row["model"],
            row["checkpoint"],
            row["status"],
            score_words(row["mean"]),
            signed_words(row["best_diff"]),
            span_words(row["best_diff_low"], row["best_diff_high"]),
            f"{row['rubric_id']} {row['rubric_version']}",
            row["run_id"],
            f"{row['decided_at']:%Y-%m-%d %H:%M}",
            (row["reasons"] or [""])[0],
        )
        for row in rows
    )
    if rows:
        words = ("Mean", "To the best", "95% interval", "Rubric", "Run", "Decided", "Reason")
        show_rows(("Model", "Checkpoint", "Status", *words), cells)


def _show_sweep(swept: "Swept") -> None:
    from gradebook.flows.display.terminal import show_rows

    if swept.undecided:
        cells = []
        for saved, notified in swept.undecided:
            flow_run = ("", saved.fault or "") if notified is None else (notified.flow_run_id, notified.state)
            cells.append((saved.model, saved.checkpoint, saved.step, saved.outputs, *flow_run))
        show_rows(("Model", "Checkpoint", "Step", "Outputs", "Flow run", "State"), cells)
    typer.echo(swept.sentence, err=True)


def _told(notified: Notified) -> str:
    words = "asked" if notified.is_new else f"asked before, and {notified.state}"
    words += f"; {MOST_TRIES} flow runs failed, so no other is begun" if notified.is_given_up else ""
    return f"flow run {notified.flow_run_id} of {notified.deployment}: {words}\n{notified.url or ''}".rstrip()


def _parameters(pairs: list[str]) -> dict[str, Any]:
    """Read `--param budget_usd=5`: a value is JSON where it can be, else text. Raises `InputError`."""
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise InputError(f"--param: found {pair!r}, expected NAME=VALUE")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found

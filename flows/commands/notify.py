"""The command `gradebook notify checkpoint`: an evaluation asked for on a Prefect server.

Training jobs run it, so it imports neither Prefect nor DuckDB before it needs them.
"""

import json
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import NOT_FINISHED, JsonOption, print_json
from gradebook.flows.deployment.notify import DEPLOYMENT, MOST_TRIES, Notified, notify_checkpoint
from gradebook.rubrics.model.errors import InputError

DeploymentOption = Annotated[str, typer.Option("--deployment", help="FLOW/DEPLOYMENT on the Prefect server")]
ParamOption = Annotated[
    list[str] | None, typer.Option("--param", help="a parameter of the flow, as budget_usd=5; may be repeated")
]

app = typer.Typer(help="Ask a Prefect server for an evaluation.", no_args_is_help=True, rich_markup_mode=None)


@app.command("checkpoint")
def notify(  # noqa: PLR0913 - each is an option
    outputs: Annotated[
        str, typer.Argument(help="the checkpoint's outputs: a file, folder or glob; to collect: a .jsonl file")
    ],
    model: Annotated[str, typer.Option("--model", help="the model, as the outputs name it")],
    step: Annotated[int | None, typer.Option("--step", help="the training step")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="checkpoint name; default: as in the outputs, or the step")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="collect the outputs first: a dataset of prompts; with --endpoint")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", help="endpoint that serves the checkpoint: a model name or an endpoint file"),
    ] = None,
    deployment: DeploymentOption = DEPLOYMENT,
    param: ParamOption = None,
    event: Annotated[bool, typer.Option("--event", help="also send the event checkpoint.saved")] = False,
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
        parameters=read_parameters(param or []),
        has_event=event,
    )
    if as_json:
        print_json(notified.as_json())
    else:
        typer.echo(_told(notified))
    if notified.is_given_up:
        raise typer.Exit(NOT_FINISHED)


def _told(notified: Notified) -> str:
    words = "asked" if notified.is_new else f"asked before, and {notified.state}"
    words += f"; {MOST_TRIES} flow runs failed, so no other is begun" if notified.is_given_up else ""
    return f"flow run {notified.flow_run_id} of {notified.deployment}: {words}\n{notified.url or ''}".rstrip()


def read_parameters(pairs: list[str]) -> dict[str, Any]:
    """Read `--param budget_usd=5`: a value is JSON where it can be, else text. Raises `InputError`."""
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

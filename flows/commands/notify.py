"""The command `gradebook suite notify`: an evaluation requested from a Prefect server.

Training jobs run it, so this module imports no more than it needs.
"""

import json
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import NOT_FINISHED, JsonOption, print_json
from gradebook.flows.deployment.notify import DEPLOYMENT, MOST_TRIES, Notified, notify_checkpoint
from gradebook.flows.display.terminal import say
from gradebook.rubrics.model.errors import InputError

DeploymentOption = Annotated[
    str, typer.Option("--deployment", help="deployment to run: FLOW/DEPLOYMENT on the Prefect server")
]
ParamOption = Annotated[
    list[str] | None, typer.Option("--param", help="a flow parameter, such as budget_usd=5; may be repeated")
]


def notify(  # noqa: PLR0913 - each is an option
    outputs: Annotated[
        str, typer.Argument(help="the checkpoint's outputs: a file, folder or glob; with --prompts, a .jsonl to write")
    ],
    model: Annotated[str, typer.Option("--model", help="model name in the outputs")],
    step: Annotated[int | None, typer.Option("--step", help="training step")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="checkpoint name; default: the outputs' column, or the step")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="dataset of prompts to collect outputs for first; with --endpoint")
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

    Two requests for the same outputs start one flow run; after a failed or crashed run, a request starts another. With
    --prompts and --endpoint the flow first collects the checkpoint's outputs into the file OUTPUTS.

    \b
    gradebook suite notify outputs/step-1200.jsonl --model support \\
        --step 1200
    gradebook suite notify outputs/ --model support --checkpoint sft-2 \\
        --param budget_usd=5 --json
    gradebook suite notify step-1200.jsonl --model support --step 1200 \\
        --prompts prompts.jsonl --endpoint e.yaml

    Exit: 0 requested, now or before, 2 bad input, 3 no answer from a server, or all flow runs for it failed.
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
        say(*_sentences(notified))
    if notified.is_given_up:
        raise typer.Exit(NOT_FINISHED)


def _sentences(notified: Notified) -> list[str]:
    state = "requested" if notified.is_new else f"requested before, now {notified.state}"
    state += f"; {MOST_TRIES} flow runs failed, so no other is created" if notified.is_given_up else ""
    sentence = f"flow run {notified.flow_run_id} of {notified.deployment}: {state}"
    return [sentence, notified.url] if notified.url else [sentence]


def read_parameters(pairs: list[str]) -> dict[str, Any]:
    """Parse `--param budget_usd=5`. A value is read as JSON if possible, else as text. Raises `InputError`."""
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise InputError("--param", repr(pair), "NAME=VALUE")
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
    return parameters

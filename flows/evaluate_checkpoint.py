"""Flow that evaluates one checkpoint, stores one decision about it, and emits the decision as an event."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import PositiveInt

from gradebook.flows.deployment.names import GATES_NOT_MET, Dollars, checkpoint_name, takes_options
from gradebook.flows.deployment.prefect_stages import WORKER_COUNT, PrefectStages
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.judging.settings.files import is_settings_file, read_endpoint
from gradebook.tasks.operations.checkpoint import CheckpointDecision, CheckpointRequest, decide_checkpoint
from gradebook.tasks.runs.request import Use, read_request
from gradebook.tasks.system.operator_settings import FOLDERS, is_below, read_operator_settings


@flow(
    name="evaluate-checkpoint",
    flow_run_name=checkpoint_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.CHECKPOINT_FLOW)
def evaluate_checkpoint(  # noqa: PLR0913 - each is a parameter of the deployment
    model: str,
    checkpoint: str | None = None,
    step: int | None = None,
    prompts: str | None = None,
    endpoint: str | None = None,
    samples: PositiveInt = 1,
    collect_budget_usd: Dollars | None = None,
    from_event: bool = False,
    folders: list[str] | None = None,
    reference: str | None = None,
    series: str | None = None,
    **options: Any,
) -> State[CheckpointDecision]:
    """Evaluate the outputs of one checkpoint, compare it with the last run and the best checkpoint, and decide.

    A decision is made once for each model, checkpoint, rubric version and content of the outputs; later flow runs read
    the stored decision, unless it is undecided. With prompts and an endpoint the outputs are collected first.

    Args:
        model: the trained model, as in the column `model` of the outputs
        checkpoint: name of the checkpoint; default: from the outputs, otherwise the step
        step: training step
        prompts: a dataset without outputs; its prompts are sent to the endpoint first
        endpoint: endpoint that serves the checkpoint: a model name or an endpoint file
        samples: number of outputs per prompt
        collect_budget_usd: maximum spend on collecting, in US dollars
        from_event: the parameters come from an event: outputs, prompts and endpoint file have to lie in the folders
        folders: folders of checkpoints for events; default: GRADEBOOK_ALLOW_FOLDERS, else the working folder
        reference: an approved checkpoint to compare with in place of the best one
        series: looks of the gate over the model's checkpoints, as method=lord,alpha=0.05,looks=31
    """
    request = read_request(options, datetime.now(UTC))
    if from_event:
        refuse_outside_paths((request.outputs, prompts), endpoint, folders)
    stages = PrefectStages()
    decision = decide_checkpoint(
        CheckpointRequest(
            request,
            model,
            checkpoint,
            step,
            prompts=prompts,
            endpoint=endpoint,
            samples=samples,
            collect_budget_usd=collect_budget_usd,
            reference=reference,
            series=series,
        ),
        stages,
    )
    if not decision.is_approved:
        stages.name_outcome(f"{checkpoint_name()}: {decision.row['status'].replace('_', ' ')}")
    return Completed(name=None if decision.is_approved else GATES_NOT_MET, data=decision)


def refuse_outside_paths(paths: tuple[str | None, ...], endpoint: str | None, folders: list[str] | None) -> None:
    """Raise `InputError` if an event names a path outside the allowed folders, or an endpoint file with a key.

    paths: files, folders or globs. Senders of events must not reach the worker's other files.
    """
    allowed = [Path(name) for name in folders or ()] or [*read_operator_settings(os.environ).folders] or [Path.cwd()]
    roots = [os.path.realpath(folder) for folder in allowed]
    is_file = endpoint is not None and is_settings_file(endpoint, Path())
    for path in (*paths, *([endpoint] if is_file else [])):
        if path is not None and not any(is_below(path, root) for root in roots):
            outside = f"{path!r} in an event, which lies outside {', '.join(map(str, allowed))}"
            raise InputError("event", outside, f"a path below, or another folder in `folders` or {FOLDERS}")
    addresses = read_endpoint(endpoint or "", os.environ).asking.addresses if is_file else ()
    if any(address.key is not None or address.header_variables for address in addresses):
        raise InputError("event", f"the endpoint file {endpoint!r}, which names a key", "one without `key`")

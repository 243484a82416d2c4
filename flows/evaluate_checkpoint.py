"""Flow that evaluates one checkpoint, stores one decision about it, and emits the decision as an event."""

import asyncio
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from prefect import flow, get_run_logger
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import PositiveInt

from gradebook.flows.deployment.artifacts import LONGEST_S
from gradebook.flows.deployment.names import GATES_NOT_MET, artifact_key, checkpoint_name
from gradebook.flows.deployment.parameters import Dollars, takes_options
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id
from gradebook.rubrics.model.collecting import refuse_incomplete
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.series import read_series
from gradebook.tasks.collecting.collect import CollectRequest
from gradebook.tasks.comparing.baseline import LATEST
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.judging.settings.files import is_settings_file, read_endpoint
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_decisions import CheckpointKey, find_decided, key_of, name_checkpoint
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision, Decider
from gradebook.tasks.operations.checkpoint_report import checkpoint_text
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric
from gradebook.tasks.runs.request import EvaluationRequest, SeriesOfNights, Use, read_request
from gradebook.tasks.stages import prefect_tasks as stages
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.suite_process import warm_up
from gradebook.tasks.system.operator_settings import FOLDERS, is_below, read_operator_settings
from gradebook.tasks.workspace.folder import RunFolder

PASSED, FAILED = "gradebook.gate.passed", "gradebook.gate.failed"


@flow(
    name="evaluate-checkpoint",
    flow_run_name=checkpoint_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.CHECKPOINT_FLOW)
async def evaluate_checkpoint(  # noqa: PLR0913 - each is a parameter of the deployment
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
    the stored decision. With prompts and an endpoint the outputs are collected first.

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
    warm_up()
    request = replace(
        read_request(options, datetime.now(UTC)), trigger="checkpoint", baseline=LATEST, series=read_looks(series)
    )
    if from_event:
        refuse_foreign((request.outputs, prompts), endpoint, folders)
    if prompts is not None or endpoint is not None:
        collecting = _collecting(request, prompts, endpoint, checkpoint, step)
        stages.collect(replace(collecting, model=model, samples=samples, budget_usd=collect_budget_usd))
        request = replace(request, column_map={})  # for the prompts only: collected outputs have gradebook's columns
    decision = await _decide(request, model, checkpoint, step, reference)
    await _show(decision)
    _emit_decision(decision)
    return Completed(name=None if decision.is_approved else GATES_NOT_MET, data=decision)


def read_looks(series: str | None) -> SeriesOfNights | None:
    """Series over the checkpoints of a model. Raises `InputError`."""
    if series is None:
        return None
    try:
        return SeriesOfNights(read_series(series), "branch")
    except ValueError:
        raise InputError("series", repr(series), "method=lord|obf|bonferroni,alpha=0.05,looks=31") from None


def refuse_foreign(places: tuple[str | None, ...], endpoint: str | None, folders: list[str] | None) -> None:
    """Raise `InputError` where an event names what its sender must not choose: a path elsewhere, or a key.

    places: files, folders or globs. Whoever may send an event may not read or write the worker's other files.
    """
    allowed = [Path(name) for name in folders or ()] or [*read_operator_settings(os.environ).folders] or [Path.cwd()]
    roots = [os.path.realpath(folder) for folder in allowed]
    is_file = endpoint is not None and is_settings_file(endpoint, Path())
    for place in (*places, *([endpoint] if is_file else [])):
        if place is not None and not any(is_below(place, root) for root in roots):
            found = f"{place!r} in an event, which lies outside {', '.join(map(str, allowed))}"
            raise InputError("event", found, f"a path below, or another folder in `folders` or {FOLDERS}")
    if is_file and any(each.key is not None for each in read_endpoint(endpoint or "", os.environ).asking.addresses):
        raise InputError("event", f"the endpoint file {endpoint!r}, which names a key", "one without `key`")


def _collecting(
    request: EvaluationRequest, prompts: str | None, endpoint: str | None, checkpoint: str | None, step: int | None
) -> CollectRequest:
    """Build the request that collects the file of outputs, and check the evaluation that follows.

    Raises `InputError`, also for faults of the evaluation, so that nothing is collected in vain.
    """
    refuse_incomplete(prompts, endpoint, checkpoint, step)
    check_request(replace(request, outputs=prompts or ""))  # the outputs do not exist yet
    return CollectRequest(
        prompts or "",
        endpoint or "",
        Path(request.outputs),
        checkpoint=checkpoint or str(step),
        column_map=request.column_map,
    )


async def _decide(
    request: EvaluationRequest, model: str, checkpoint: str | None, step: int | None, reference: str | None
) -> CheckpointDecision:
    """Read the stored decision about the checkpoint, or publish a run and decide."""
    lake = find_lake(request.lake, request.data)
    rubric, files = find_rubric(request.rubric, lake), dataset_files(request.outputs)
    refuse_changed_rubric(lake, rubric)
    name = name_checkpoint(files, request.column_map, checkpoint, step)
    key = CheckpointKey(model, name, rubric.id, rubric.version, digest_files(files))
    gate = gate_rule(request.fail_if, request.require)
    decider = Decider(lake, key, step, gate, request.across_judges, reference)
    if row := find_decided(lake, key):
        return decider.read(row, str(RunFolder.below(lake.root, row["run_id"]).report_file))
    run_id = deployed_run_id(f"{model}-{name}")
    summary = await publish_evaluation(replace(request, run_id=run_id, checkpoint=OneCheckpoint(model, name)))
    return decider.decide(summary, str(RunFolder.below(lake.root, summary.run_id).report_file))


async def _show(decision: CheckpointDecision) -> None:
    """Show the decision as an artifact; a failure is only logged, because the decision is stored in the lake."""
    words = f"{decision.row['model']} @ {decision.row['checkpoint']}: {decision.row['status']}"
    try:
        async with asyncio.timeout(LONGEST_S):
            key = artifact_key(decision.row["rubric_id"], "checkpoint")
            await acreate_markdown_artifact(checkpoint_text(decision), key=key, description=words)
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("%s; the artifact could not be stored: %r", words, error)


def _emit_decision(decision: CheckpointDecision) -> None:
    """Emit the gate's event, whose id depends on the decision alone.

    A stored decision is emitted again: the flow run that decided may have been killed before it emitted the event.
    """
    row, key = decision.row, key_of(decision.row)
    try:
        emit_event(
            PASSED if decision.is_approved else FAILED,
            resource={"prefect.resource.id": f"training.{row['model']}", "prefect.resource.name": row["model"]},
            related=[{"prefect.resource.id": f"gradebook.run.{row['run_id']}", "prefect.resource.role": "run"}],
            payload=decision.as_json(),
            id=uuid5(NAMESPACE_URL, "\n".join(("gradebook gate", *key.values))),
        )
    except Exception as error:  # noqa: BLE001 - the decision is stored in the lake: see _show
        get_run_logger().warning("no event %s of run %s was emitted: %r", row["status"], row["run_id"], error)

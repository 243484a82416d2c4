"""The evaluation of one checkpoint, and whether it is approved: decided once, and told to whoever listens."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from prefect import flow, get_run_logger
from prefect.artifacts import acreate_markdown_artifact
from prefect.events import emit_event
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import PositiveInt

from gradebook.flows.deployment.artifacts import LONGEST_S
from gradebook.flows.deployment.parameters import Dollars, takes_options
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id
from gradebook.rubrics.model.collecting import refuse_incomplete
from gradebook.tasks.collecting.collect import CollectRequest
from gradebook.tasks.comparing.baseline import LATEST
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_decisions import CheckpointKey, find_decided, key_of, name_checkpoint
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision, Decider
from gradebook.tasks.operations.checkpoint_report import checkpoint_text
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric
from gradebook.tasks.runs.request import EvaluationRequest, Use, read_request
from gradebook.tasks.stages import prefect_tasks as stages
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.quality import warm_up
from gradebook.tasks.workspace.folder import RunFolder

PASSED, FAILED = "gradebook.gate.passed", "gradebook.gate.failed"


@flow(
    name="evaluate-checkpoint",
    flow_run_name="{model} by {rubric} over {outputs}",
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.CHECKPOINT_FLOW)
async def evaluate_checkpoint(
    model: str,
    checkpoint: str | None = None,
    step: int | None = None,
    prompts: str | None = None,
    endpoint: str | None = None,
    samples: PositiveInt = 1,
    collect_budget_usd: Dollars | None = None,
    **options: Any,
) -> CheckpointDecision:
    """Evaluate the outputs of one checkpoint, compare it with the last run and the best checkpoint, and decide.

    The same outputs of the same checkpoint by the same rubric version are decided once: again, the decision is read.
    With prompts and an endpoint the outputs are collected first.

    Args:
        model: the model that is trained; its column in the outputs
        checkpoint: name of the checkpoint; default: as the outputs say, or its step
        step: of the training
        prompts: a dataset without outputs, whose prompts are first asked of the endpoint
        endpoint: endpoint that serves the checkpoint: a model name or an endpoint file
        samples: outputs of each prompt
        collect_budget_usd: maximum spend on collecting, in US dollars
    """
    warm_up()
    request = replace(read_request(options, datetime.now(UTC)), trigger="checkpoint", baseline=LATEST)
    if prompts is not None or endpoint is not None:
        collecting = _collecting(request, prompts, endpoint, checkpoint, step)
        stages.collect(replace(collecting, model=model, samples=samples, budget_usd=collect_budget_usd))
        request = replace(request, column_map={})  # it was of the prompts: collected outputs have gradebook's columns
    decision = await _decide(request, model, checkpoint, step)
    await _show(decision)
    _tell(decision)
    return decision


def _collecting(
    request: EvaluationRequest, prompts: str | None, endpoint: str | None, checkpoint: str | None, step: int | None
) -> CollectRequest:
    """What is to be collected into the file of outputs. Raises `InputError`, also for what would be wrong afterwards:
    nothing is asked then.
    """
    refuse_incomplete(prompts, endpoint, checkpoint, step)
    check_request(replace(request, outputs=prompts or ""))  # the outputs are all that is not there yet
    return CollectRequest(
        prompts or "",
        endpoint or "",
        Path(request.outputs),
        checkpoint=checkpoint or str(step),
        column_map=request.column_map,
    )


async def _decide(
    request: EvaluationRequest, model: str, checkpoint: str | None, step: int | None
) -> CheckpointDecision:
    """What was decided about it before, or else is decided by a run published now."""
    lake = find_lake(request.lake, request.data)
    rubric, files = find_rubric(request.rubric, lake), dataset_files(request.outputs)
    refuse_changed_rubric(lake, rubric)
    name = name_checkpoint(files, request.column_map, checkpoint, step)
    key = CheckpointKey(model, name, rubric.id, rubric.version, digest_files(files))
    decider = Decider(lake, key, step, request.fail_if)
    if row := find_decided(lake, key):
        return decider.read(row, str(RunFolder(lake.root / "runs" / row["run_id"]).report_file))
    run_id = deployed_run_id(f"{model}-{name}")
    summary = await publish_evaluation(replace(request, run_id=run_id, checkpoint=OneCheckpoint(model, name)))
    return decider.decide(summary, str(RunFolder(lake.root / "runs" / summary.run_id).report_file))


async def _show(decision: CheckpointDecision) -> None:
    """Keep the decision as an artifact; it stands in the lake, so a server that is gone is only told in the log."""
    words = f"{decision.row['model']} @ {decision.row['checkpoint']}: {decision.row['status']}"
    try:
        async with asyncio.timeout(LONGEST_S):
            await acreate_markdown_artifact(checkpoint_text(decision), key="checkpoint", description=words)
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("%s; its artifact is not kept: %r", words, error)


def _tell(decision: CheckpointDecision) -> None:
    """Emit the gate's event; of one decision it has one id, however often it is told.

    It is told again where the decision was read, for whoever decided may have been killed before it told.
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
    except Exception as error:  # noqa: BLE001 - the decision stands in the lake: see _show
        get_run_logger().warning("%s of run %s is not told: %r", row["status"], row["run_id"], error)

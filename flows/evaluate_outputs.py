"""The evaluation of one set of outputs by one rubric, from files to published tables."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.parameters import takes_options
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import Use, read_request
from gradebook.tasks.stages.quality import warm_up


@flow(
    name="evaluate-outputs",
    flow_run_name="{rubric} over {outputs}",
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.OUTPUTS_FLOW)
async def evaluate_outputs(**options: Any) -> RunSummary:
    """Score one set of outputs with one rubric version and publish the evaluation tables."""
    warm_up()
    request = read_request(options, datetime.now(UTC))
    return await publish_evaluation(replace(request, run_id=request.run_id or deployed_run_id(request.trigger)))

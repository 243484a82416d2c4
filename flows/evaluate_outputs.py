"""Flow that evaluates one set of outputs with one rubric, from files to published tables."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.names import GATES_NOT_MET, add_models, evaluation_name
from gradebook.flows.deployment.parameters import sends_plain_values, takes_options
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import Use, read_request
from gradebook.tasks.stages.suite_process import warm_up


@sends_plain_values
@flow(
    name="evaluate-outputs",
    flow_run_name=evaluation_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.OUTPUTS_FLOW)
async def evaluate_outputs(**options: Any) -> State[RunSummary]:
    """Score one set of outputs with one rubric version and publish the evaluation tables.

    The flow run ends as Completed, as GatesNotMet (a state of type Completed), or as Failed.
    """
    request = read_request(options, datetime.now(UTC))
    warm_up(has_page=request.has_page)
    summary = await publish_evaluation(replace(request, run_id=request.run_id or deployed_run_id(request.trigger)))
    await add_models([model_name(row) for row in summary.scores])
    return Completed(name=None if summary.is_met else GATES_NOT_MET, message=summary.verdict.sentence, data=summary)

"""Flow that evaluates one set of outputs with one rubric, from files to published tables."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.in_process import command_request
from gradebook.flows.deployment.names import GATES_NOT_MET, evaluated_name, evaluation_name, takes_options
from gradebook.flows.deployment.prefect_stages import WORKER_COUNT, PrefectStages
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import Use, read_request
from gradebook.tasks.stages.pipeline import publish_evaluation


@flow(
    name="evaluate-outputs",
    flow_run_name=evaluation_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
@takes_options(Use.OUTPUTS_FLOW)
def evaluate_outputs(**options: Any) -> State[RunSummary]:
    """Score one set of outputs with one rubric version and publish the evaluation tables.

    The flow run ends as Completed, as GatesNotMet (a state of type Completed), or as Failed.
    """
    stages, here = PrefectStages(), command_request()
    request = here.request if here else read_request(options, datetime.now(UTC))
    run_id = request.run_id or stages.run_id(request.trigger)
    summary = publish_evaluation(replace(request, run_id=run_id), stages, here.checked if here else None)
    stages.name_outcome(evaluated_name(summary))
    return Completed(name=None if summary.is_met else GATES_NOT_MET, message=summary.verdict.sentence, data=summary)

"""Flow that rescores a published run with another rubric, on a schedule or after a change of weights."""

from prefect import flow

from gradebook.flows.deployment.prefect_stages import PrefectStages
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.stages.rescore import RescoreRequest
from gradebook.tasks.stages.rescore import rescore_run as rescore
from gradebook.tasks.workspace.folder import DEFAULT_LAKE


@flow(name="rescore-run", flow_run_name="{run} by {rubric}")
def rescore_run(
    run: str,
    rubric: str,
    lake: str = DEFAULT_LAKE,
    data: str | None = None,
    run_id: str | None = None,
) -> RunSummary:
    """Publish a published run's verdicts as a new run with another rubric, and show its artifacts."""
    summary, _ = rescore(RescoreRequest(run, rubric, lake, data, run_id), PrefectStages())
    return summary

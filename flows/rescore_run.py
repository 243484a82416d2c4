"""The rescoring of a published run by another rubric, for a schedule or after a change of weights."""

from prefect import flow
from prefect.artifacts import acreate_link_artifact, acreate_table_artifact

from tasks.lake import DEFAULT_LAKE
from tasks.rescore import RescoreRequest
from tasks.rescore import rescore_run as rescore
from tasks.summary import RunSummary


@flow(name="rescore-run", flow_run_name="{run} by {rubric}")
async def rescore_run(
    run: str,
    rubric: str,
    lake: str = DEFAULT_LAKE,
    data: str | None = None,
    run_id: str | None = None,
) -> RunSummary:
    """Publish a run of a published run's verdicts held to another rubric, and show its scores as an artifact."""
    summary, report = rescore(RescoreRequest(run, rubric, lake, data, run_id))
    rows = [{name: _cell(value) for name, value in row.items()} for row in summary.scores]
    words = f"Scores of run {summary.run_id}, version {summary.run['version']}"
    await acreate_table_artifact(rows, key="scores", description=words)
    await acreate_link_artifact(report.as_uri(), key="report", link_text=f"Report of run {summary.run_id}")
    return summary


def _cell(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value

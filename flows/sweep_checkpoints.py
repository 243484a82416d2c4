"""The sweep on a schedule: checkpoints that nobody told of are asked for, each as a flow run of its own."""

from typing import Any

from prefect import flow, get_run_logger

from gradebook.flows.deployment.notify import DEPLOYMENT
from gradebook.flows.deployment.sweep import SweepRequest, sweep_saved
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.runs.request import DEFAULT_LAKE


@flow(name="sweep-checkpoints", flow_run_name="sweep by {rubric}")
def sweep_checkpoints(  # noqa: PLR0913 - a deployment's form shows each
    rubric: str,
    place: str | None = None,
    query: str | None = None,
    model: str | None = None,
    pattern: str | None = None,
    deployment: str = DEPLOYMENT,
    parameters: dict[str, Any] | None = None,
    column_map: dict[str, str] | None = None,
    lake: str = DEFAULT_LAKE,
    data: str | None = None,
) -> dict[str, Any]:
    """Ask for the evaluation of each checkpoint whose outputs were never decided about.

    It waits for none of them. Ends as Failed where outputs can't be read, or all flow runs for one failed; the others
    are asked for all the same.

    Args:
        rubric: the rubric that decides, as the other deployment names it
        place: a folder or a glob of checkpoints' outputs, or a file with a table of them
        query: in place of it, SQL over the lake with the columns model, outputs, and checkpoint or step
        model: the model, where no path names it
        pattern: how paths end, as {model}/checkpoint-{step}/outputs.jsonl
        deployment: FLOW/DEPLOYMENT that evaluates a checkpoint
        parameters: of that deployment, where they differ from its own
        column_map: a column of gradebook and what the files call it, as {"checkpoint": "step"}
        lake: sqlite:FILE or postgres:CONNECTION, without a password; the lake of the other deployment
        data: where the Parquet files are, for a PostgreSQL lake
    """
    swept = sweep_saved(
        SweepRequest(
            rubric,
            place=place,
            query=query,
            model=model,
            pattern=pattern,
            deployment=deployment,
            parameters=parameters or {},
            column_map=column_map or {},
            lake=lake,
            data=data,
        ),
        is_notifying=True,
    )
    for saved, notified in swept.undecided:
        if notified is not None:
            words = "asked for" if notified.is_new else f"asked for before, and {notified.state}"
            get_run_logger().info("%s: flow run %s, %s", saved.name, notified.flow_run_id, words)
    if swept.faults:
        raise UnfinishedError(f"{swept.sentence}; not to be decided about: {'; '.join(swept.faults)}")
    get_run_logger().info("%s", swept.sentence)
    return swept.as_json()

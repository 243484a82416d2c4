"""Scheduled sweep: requests an evaluation for each checkpoint without a decision, as a flow run of its own."""

from typing import Any

from prefect import flow, get_run_logger

from gradebook.flows.deployment.notify import DEPLOYMENT
from gradebook.flows.deployment.sweep import SweepRequest, sweep_saved
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.workspace.folder import DEFAULT_LAKE


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
    """Request the evaluation of each checkpoint without a decision, and do not wait for the flow runs.

    The sweep ends as Failed if outputs can't be read or if all flow runs for a checkpoint failed; the other checkpoints
    are requested anyway.

    Args:
        rubric: rubric of the decision, as in the parameters of the evaluating deployment
        place: checkpoints' outputs: a folder or glob, or a file with a table of them
        query: SQL over the lake instead of a place; columns: model, checkpoint or step, outputs
        model: model name, if paths do not contain it
        pattern: end of the paths, such as {model}/checkpoint-{step}/outputs.jsonl
        deployment: FLOW/DEPLOYMENT that evaluates a checkpoint
        parameters: parameters of that deployment that differ from its defaults
        column_map: column names of the files, by gradebook's names, such as {"checkpoint": "step"}
        lake: lake of that deployment: sqlite:FILE or postgres:CONNECTION, without a password
        data: folder of the Parquet files, for a PostgreSQL lake
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
            state = "requested" if notified.is_new else f"requested before, now {notified.state}"
            get_run_logger().info("%s: flow run %s, %s", saved.name, notified.flow_run_id, state)
    if swept.faults:
        raise UnfinishedError(f"{swept.sentence}; no decision possible: {'; '.join(swept.faults)}")
    get_run_logger().info("%s", swept.sentence)
    return swept.as_json()

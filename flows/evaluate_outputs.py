"""The evaluation of one set of outputs by one rubric, from files to published tables."""

from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.parameters import Dollars, Feedback, Rate, Trigger
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id
from gradebook.tasks.judging.settings.deadline import read_deadline
from gradebook.tasks.lake.address import DEFAULT_LAKE
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.quality import warm_up


@flow(
    name="evaluate-outputs",
    flow_run_name="{rubric} over {outputs}",
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
async def evaluate_outputs(  # noqa: PLR0913 - a deployment's form shows each
    outputs: str,
    rubric: str,
    judge: str | None = None,
    ratings: str | None = None,
    lake: str = DEFAULT_LAKE,
    data: str | None = None,
    run_id: str | None = None,
    budget_usd: Dollars | None = None,
    max_bad_rate: Rate = 0.01,
    column_map: dict[str, str] | None = None,
    allow_unscored: bool = False,
    feedback: Feedback | None = None,
    trigger: Trigger = "manual",
    allow_functions: list[str] | None = None,
    record: str | None = None,
    deadline: str | None = None,
    baseline: str | None = None,
    fail_if: str | None = None,
    runner: str | None = None,
) -> RunSummary:
    """Score one set of outputs with one rubric version and publish the evaluation tables.

    Args:
        outputs: JSON Lines, CSV or Parquet, plain, .gz or .zst; a file, folder or glob, as the worker sees it
        rubric: a rubric file, a shipped rubric's name, ID@VERSION of the lake, or none where rows bring criteria
        judge: a model's name, a judge file, or replay:FILE; its key belongs into the worker's environment
        ratings: a file of people's ratings
        lake: sqlite:FILE or postgres:CONNECTION, without a password
        data: where the Parquet files are, for a PostgreSQL lake
        run_id: names the run; by default a name that retries of this flow run share
        budget_usd: dollars that are never passed
        max_bad_rate: share of rows that may not fit
        column_map: a column of gradebook and what the file calls it, as {"output": "response"}
        allow_unscored: go on where nothing scores a criterion's method
        feedback: llm to let the judge write a text for each output and model
        trigger: what the table `runs` calls the cause of this run
        allow_functions: packages whose functions may run
        record: a file that keeps the judge's replies, for replay:FILE
        deadline: when batches are given up, a time or a duration such as 6h
        baseline: a run to compare with, or latest
        fail_if: what must not hold beside the baseline, such as mean_diff < -0.01 and p < 0.05
        runner: where checks are computed: threads, processes, dask, dask:ADDRESS, ray or ray:ADDRESS
    """
    warm_up()
    request = EvaluationRequest(
        outputs,
        rubric,
        judge=judge,
        ratings=ratings,
        lake=lake,
        data=data,
        run_id=run_id or deployed_run_id(trigger),
        budget_usd=budget_usd,
        max_bad_rate=max_bad_rate,
        column_map=column_map or {},
        allow_unscored=allow_unscored,
        feedback=feedback,
        trigger=trigger,
        allow_functions=tuple(allow_functions or ()),
        record=record,
        deadline=read_deadline(deadline, datetime.now(UTC)) if deadline else None,
        baseline=baseline,
        fail_if=fail_if,
        runner=runner,
    )
    return await publish_evaluation(request)


def parameters_of(request: EvaluationRequest) -> dict[str, Any]:
    """The parameters by which the flow makes that request, as a deployment would have them."""
    return {
        "outputs": request.outputs,
        "rubric": request.rubric,
        "judge": request.judge,
        "ratings": request.ratings,
        "lake": request.lake,
        "data": request.data,
        "run_id": request.run_id,
        "budget_usd": request.budget_usd,
        "max_bad_rate": request.max_bad_rate,
        "column_map": dict(request.column_map),
        "allow_unscored": request.allow_unscored,
        "feedback": request.feedback,
        "trigger": request.trigger,
        "allow_functions": list(request.allow_functions),
        "record": request.record,
        "deadline": request.deadline.isoformat() if request.deadline else None,
        "baseline": request.baseline,
        "fail_if": request.fail_if,
        "runner": request.runner,
    }

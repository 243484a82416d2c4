"""The evaluation of one set of outputs by one rubric, from files to published tables."""

import gc
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.futures import PrefectFuture, wait
from prefect.task_runners import ThreadPoolTaskRunner

from flows.artifacts import show_artifacts
from tasks import stages
from tasks.ingest import Ingested
from tasks.judging.deadlines import read_deadline
from tasks.lake import DEFAULT_LAKE
from tasks.progress import reporter
from tasks.quality import warm_up
from tasks.request import EvaluationRequest
from tasks.runs import Run, is_published, opened_run, recorded
from tasks.scoring.setup import ScoringSetup, opened_setup
from tasks.summary import RunSummary

# A task is a criterion and a shard: it computes outside Python's lock, or waits for the judge or another process.
WORKER_COUNT = 8


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
    budget_usd: float | None = None,
    max_bad_rate: float = 0.01,
    column_map: dict[str, str] | None = None,
    allow_unscored: bool = False,
    feedback: str | None = None,
    trigger: str = "manual",
    allow_functions: list[str] | None = None,
    record: str | None = None,
    deadline: str | None = None,
    baseline: str | None = None,
    fail_if: str | None = None,
) -> RunSummary:
    """Score one set of outputs with one rubric version and publish the evaluation tables."""
    warm_up()
    request = EvaluationRequest(
        outputs,
        rubric,
        judge=judge,
        ratings=ratings,
        lake=lake,
        data=data,
        run_id=run_id,
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
    )
    with opened_run(request, datetime.now(UTC)) as run:
        if not is_published(run):  # by a command that named this run, or was interrupted just after its commit
            with recorded(run):
                _evaluate(run)
        summary = stages.conclude(run)
    await show_artifacts(summary, run.folder.report_file)
    return summary


def _evaluate(run: Run) -> None:
    gc.freeze()  # the imports left a million objects: collecting would walk them again and again
    ingested = stages.ingest(run)
    planned = stages.plan(run, ingested)
    checked = [stages.validate_outputs.submit(run, shard, index) for index, shard in enumerate(ingested.shards)]
    if planned.request_count:
        _finish(checked)  # before any money is spent
    planned = stages.ask_in_batches(run, ingested, planned)
    with opened_setup(run, planned, ingested.shards) as setup:
        _finish([*checked, *_score(run, setup, ingested, planned.own_count.criterion_count)])
        reporter().end("score")
        feedback_note = stages.write_feedback(run, ingested, setup.session)
    stages.validate_judgments(run)
    stages.aggregate(run, ingested)
    stages.publish(run, ingested, planned, feedback_note)


def _score(run: Run, setup: ScoringSetup, ingested: Ingested, own_count: int) -> list[PrefectFuture[Any]]:
    """Fan out one task a criterion and shard; when a shard has all its verdicts, they are validated together."""
    reporter().begin("score", ingested.output_count * len(run.rubric.criteria) + own_count)
    futures: list[PrefectFuture[Any]] = []
    for index, shard in enumerate(ingested.shards):
        scored = [
            stages.score_criterion.submit(run, setup, criterion.id, shard, index) for criterion in run.rubric.criteria
        ]
        if run.folder.case_criteria_file(index).exists():
            scored.append(stages.score_case_criteria.submit(setup, shard, index))
        collected = stages.validate_verdicts.submit(run, index, return_state=False, wait_for=scored)
        futures += [*scored, collected]
    return futures


def _finish(futures: Sequence[PrefectFuture[Any]]) -> None:
    """Wait for all of them, then raise what the first failed one raised."""
    wait(list(futures))
    for future in futures:
        future.result()

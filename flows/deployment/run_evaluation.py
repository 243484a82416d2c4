"""One evaluation inside a flow, whichever flow that is: from what is asked for to a published run."""

import gc
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from prefect.futures import PrefectFuture, wait
from prefect.task_runners import TaskRunner

from gradebook.flows.deployment.artifacts import show_artifacts
from gradebook.flows.deployment.run_ids import refuse_endless_tries
from gradebook.flows.deployment.task_runners import opened_cluster, settle
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.cluster import ShardWork, shard_work
from gradebook.tasks.scoring.setup import ScoringSetup, opened_setup
from gradebook.tasks.stages import prefect_tasks as stages
from gradebook.tasks.stages.open_run import is_published, opened_run, recorded
from gradebook.tasks.system.events import Piece, piece_span
from gradebook.tasks.system.progress import reporter

# A task is a criterion and a shard: it computes outside Python's lock, or waits for the judge or another process.
WORKER_COUNT = 8


async def publish_evaluation(request: EvaluationRequest) -> RunSummary:
    """Evaluate and publish one run, with its artifacts; one that is published already is read back.

    Raises `InputError` where the request is wrong, `UnfinishedError` where the run can't go on.
    """
    await refuse_endless_tries()
    with opened_run(request, datetime.now(UTC)) as run:
        if not is_published(run):  # by a command that named this run, or was interrupted just after its commit
            with recorded(run), opened_cluster(run) as cluster:
                _evaluate(run, cluster)
        summary = stages.conclude(run)
    await show_artifacts(summary, run.folder.report_file)
    return summary


def _evaluate(run: Run, cluster: TaskRunner[Any] | None) -> None:
    _set_imports_aside()
    ingested = stages.ingest(run)
    planned = stages.plan(run, ingested)
    checked = [stages.validate_outputs.submit(run, shard, index) for index, shard in enumerate(ingested.shards)]
    if planned.request_count:
        _finish(checked)  # before any money is spent
    planned = stages.ask_in_batches(run, ingested, planned)
    with piece_span(Piece(run.run_id, "score")), opened_setup(run, planned, ingested.shards) as setup:
        reporter().begin("score", ingested.output_count * len(run.rubric.criteria) + planned.own_count.criterion_count)
        _finish([*checked, *_score(run, setup, ingested, cluster)])
        reporter().end("score")
        feedback_note = stages.write_feedback(run, ingested, setup.session)
    stages.validate_judgments(run)
    stages.aggregate(run, ingested)
    stages.publish(run, ingested, planned, feedback_note)


@cache
def _set_imports_aside() -> None:
    """Keep the collector from the million objects that imports leave; once, for later ones are of evaluations."""
    gc.freeze()


def _score(
    run: Run, setup: ScoringSetup, ingested: Ingested, cluster: TaskRunner[Any] | None
) -> list[PrefectFuture[Any]]:
    """Fan out one task a criterion and shard; when a shard has all its verdicts, they are validated together.

    A cluster has one task for all that code decides over a shard. What a judge decides stays in this process: its
    session knows what is paid for.
    """
    futures: list[PrefectFuture[Any]] = []
    for index, shard in enumerate(ingested.shards):
        work = shard_work(setup, run.rubric, shard, index) if cluster else ShardWork()
        scored = [
            stages.score_criterion.submit(run, setup, criterion.id, shard, index)
            for criterion in run.rubric.criteria
            if criterion.id not in work.criterion_ids
        ]
        computed: Any = ()
        if cluster and work.computations:
            computed = cluster.submit(stages.compute_shard, {"work": work, "shard_index": index})
            futures.append(computed)
        if run.folder.case_criteria_file(index).exists():
            scored.append(stages.score_case_criteria.submit(setup, shard, index))
        collected = stages.validate_verdicts.submit(run, index, computed, return_state=False, wait_for=scored)
        futures += [*scored, collected]
    return futures


def _finish(futures: Sequence[PrefectFuture[Any]]) -> None:
    """Wait for all of them, then raise what the first failed one raised."""
    wait(list(futures))
    for future in futures:
        settle(future)

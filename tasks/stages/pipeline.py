"""Order of the stages of an evaluation."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise

from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import RefusedSetting
from gradebook.tasks.comparing.interim_analyses import analyse_block, without_unjudged_shards
from gradebook.tasks.datasets.discovery import digest_files
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.settings.learned import store_learned
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.methods.method import ScoringSetup
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.runs.runner import THREADS
from gradebook.tasks.scoring.shards import (
    ShardWork,
    compute_work,
    opened_setup,
    score_criteria,
    score_own_criteria,
    score_shard,
    shard_work,
)
from gradebook.tasks.stages.aggregate import aggregate_run
from gradebook.tasks.stages.check_request import CheckedRequest, check_request
from gradebook.tasks.stages.notes import run_notes
from gradebook.tasks.stages.open_run import is_published, is_unpaid, opened_run, recorded
from gradebook.tasks.stages.publish import conclude_run, publish_run
from gradebook.tasks.stages.quality import (
    check_judgments,
    check_output_suites,
    check_outputs,
    check_score_suites,
    check_verdicts,
    forget_findings,
)
from gradebook.tasks.stages.run_stages import (
    ask_run_in_batches,
    collect_verdicts,
    ingest_run,
    plan_judgments,
    write_run_feedback,
)
from gradebook.tasks.stages.submit import Pending, Stages, StagesInThreads
from gradebook.tasks.system.events import Piece, piece_span
from gradebook.tasks.system.progress import reporter

MOST_STAGES = 50  # scoring stages per shard: a Prefect task takes 15 ms, a check of 100 outputs 2 ms


def publish_evaluation(request: EvaluationRequest, stages: Stages, checked: CheckedRequest | None = None) -> RunSummary:
    """Evaluate and publish one run; a run that is already published is read back.

    checked: the request, if it was just checked. Raises `InputError` for a wrong request, `UnfinishedError` if the run
    can't be finished.
    """
    stages.refuse_endless_tries()
    try:
        with opened_run(request, datetime.now(UTC), checked) as run:
            summary = complete_run(run, stages)
    except RefusedSetting as refused:  # a default setting, which is not sent again, so the loop ends
        store_learned(run.lake.root, refused)
        if not is_unpaid(run.folder):
            raise
        base_url, model, setting, value, reason = refused.args
        reporter().wait(
            f"{base_url}: {model} refused the first request, {reason}; asked again with `{setting}: {value}`"
        )
        return publish_evaluation(request, stages)
    stages.show_run(run, summary)
    return summary


def evaluate_run(run: Run, stages: Stages) -> None:
    """Evaluate an open run and publish it.

    Raises `InputError` before any request is sent, and `UnfinishedError`; finished judgments are in the ledger.
    """
    ingested, planned = plan_evaluation(run, stages)
    pending_checks = _check_outputs(run, ingested, stages)
    if planned.request_count or run.asks_models:
        stages.finish(pending_checks)  # before any money is spent
    if run.asks_models:
        planned = stages.call(ask_run_in_batches, run, ingested, planned)
    with piece_span(Piece(run.run_id, "score")), opened_setup(run, planned, ingested.shards) as setup:
        reporter().begin("score", ingested.output_count * len(run.rubric.criteria) + planned.own_count.criterion_count)
        ingested = _score_blocks(run, setup, ingested, pending_checks, stages)
        reporter().end("score")
        feedback_note = stages.call(write_run_feedback, run, ingested, setup.session) if run.request.feedback else None
    if run.asks_models:
        stages.call(check_judgments, run, _has_suites(run, stages))
    publish_verdicts(run, ingested, stages, lambda: run_notes(run, ingested, planned, feedback_note))


def complete_run(run: Run, stages: Stages, evaluate: Callable[[Run, Stages], None] = evaluate_run) -> RunSummary:
    """Evaluate an open run, unless it is published already; returns its summary."""
    evaluate_once(run, stages, evaluate)
    return stages.call(conclude_run, run)


def evaluate_once(run: Run, stages: Stages, evaluate: Callable[[Run, Stages], None] = evaluate_run) -> None:
    """Evaluate an open run, unless it is published already."""
    if not is_published(run):  # an earlier command may have published it and been interrupted after the commit
        with recorded(run), stages.opened(run):
            forget_findings(run.folder)
            evaluate(run, stages)


def plan_evaluation(run: Run, stages: Stages, *, is_preview: bool = False) -> tuple[Ingested, RunPlan]:
    """Read a run's outputs and plan the requests; a dry run ends here. Raises `InputError`."""
    ingested = stages.call(ingest_run, run)
    return ingested, stages.call(plan_judgments, run, ingested, is_preview=is_preview)


def publish_verdicts(run: Run, ingested: Ingested, stages: Stages, notes: Callable[[], list[str]]) -> None:
    """Build the marts of a run with its verdicts, and publish it. notes: called after the marts are built."""
    stages.call(aggregate_run, run, ingested)
    if run.suites:
        stages.call(check_score_suites, run, len(ingested.shards))
    stages.call(publish_run, run, ingested, notes())


def publish_reused(run: Run, ingested: Ingested, stages: Stages, notes: Callable[[], list[str]]) -> None:
    """Publish a run as `publish_verdicts`, without the checks of outputs and verdicts, which another run has made."""
    for index, shard in enumerate(ingested.shards):
        stages.call(check_outputs, run, shard, index)
        stages.call(check_verdicts, run, index)
    publish_verdicts(run, ingested, stages, notes)


def _has_suites(run: Run, stages: Stages) -> bool:
    """Whether the shipped suites of great-expectations run."""
    return stages.has_suites or run.request.suites


def _check_outputs(run: Run, ingested: Ingested, stages: Stages) -> list[Pending]:
    pending = [stages.submit(check_outputs, run, shard, index) for index, shard in enumerate(ingested.shards)]
    has_suites = _has_suites(run, stages)
    if run.suites or has_suites:
        pending.append(stages.submit(check_output_suites, run, ingested.shards, has_suites))
    return pending


def _score_blocks(
    run: Run, setup: ScoringSetup, ingested: Ingested, pending_checks: Sequence[Pending], stages: Stages
) -> Ingested:
    """Score the shards, block by block until the run stops; returns the ingested rows of the scored shards.

    pending_checks: stages to finish with the first block.
    """
    block_ends = [0, *accumulate(ingested.blocks or (len(ingested.shards),))]
    for block, (begin, end) in enumerate(pairwise(block_ends)):
        scored = [pending for index in range(begin, end) for pending in _score(run, setup, ingested, index, stages)]
        stages.finish([*pending_checks, *scored])
        is_decided: bool = bool(ingested.blocks) and stages.call(analyse_block, run, ingested, block)
        if is_decided:
            return without_unjudged_shards(run, ingested, end)
    return ingested


def _score(run: Run, setup: ScoringSetup, ingested: Ingested, index: int, stages: Stages) -> list[Pending]:
    """Start one stage for each criterion of a shard, and one that collects its verdicts afterwards.

    More than `MOST_STAGES` criteria share stages. A cluster runs one stage for all checks and schemas of a shard.
    Judged criteria stay in this process, because the session tracks paid requests.
    """
    shard = ingested.shards[index]
    work = shard_work(setup, run.rubric, shard, index) if stages.has_cluster else ShardWork()
    computed: list[Pending] = []
    if work.computations:
        computed.append(stages.submit_to_cluster(compute_work, work))
    criteria = [criterion for criterion in run.rubric.criteria if criterion.id not in work.criterion_ids]
    if len(criteria) <= MOST_STAGES:
        scored = [stages.submit(score_shard, setup, criterion, shard, index) for criterion in criteria]
    else:
        size = -(-len(criteria) // MOST_STAGES)
        groups = [criteria[start : start + size] for start in range(0, len(criteria), size)]
        scored = [stages.submit(score_criteria, setup, group, shard, index) for group in groups]
    if run.folder.case_criteria_file(index).exists():
        scored.append(stages.submit(score_own_criteria, setup, shard, index))
    times = computed[0] if computed else ()
    collected = stages.submit(collect_verdicts, run, index, times, after=scored)
    return [*computed, *scored, collected]


def run_to_rate(request: EvaluationRequest) -> str:
    """Id of the latest published run of the request's outputs and rubric, judged or not.

    Without one, the outputs are evaluated without a judge, as a run without a page. Raises `InputError` for a wrong
    request, and `UnfinishedError`.
    """
    request = replace(request, judge=None, allow_unscored=True, has_page=False, runner=THREADS)
    checked_request = check_request(request)
    prepare_lake(checked_request.lake)
    with connect(checked_request.lake, read_only=True) as connection:
        rows = read_rows(
            connection,
            query("stages/run_of_outputs"),
            dataset_digest=digest_files(checked_request.files),
            rubric_digest=rubric_digest(checked_request.rubric),
        )
    for row in rows:
        if json.loads(row["column_map"]) == dict(request.column_map):
            return str(row["run_id"])
    with opened_run(request, datetime.now(UTC)) as run:
        return complete_run(run, StagesInThreads()).run_id

"""The first steps of a run, with their times: what a flow's tasks and a review have in common."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.tasks.comparing.baseline import refuse_unpaired
from gradebook.tasks.datasets.case_criteria import methods_used, refuse_no_criteria, taken_ids, write_case_criteria
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs
from gradebook.tasks.judging.batches.job import BatchJob, Pace
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import has_open_batches
from gradebook.tasks.judging.money.prices import find_price
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.session.session import Session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import writer_of
from gradebook.tasks.ledger.ledger import settle_journals, settle_run
from gradebook.tasks.planning.plan import RunPlan, plan_run
from gradebook.tasks.ratings.run_ratings import has_preferred, match_ratings
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.feedback import add_feedback, write_feedback
from gradebook.tasks.scoring.shard_questions import shard_questions
from gradebook.tasks.stages.check_request import read_request_ratings
from gradebook.tasks.stages.open_run import keep_planned
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed


def ingest_run(run: Run) -> Ingested:
    """Read the run's outputs into validated shards. Raises `OutputsError`."""
    with timed(run.folder, "ingest") as timing:
        ingested = ingest_request(run.request, run.rubric, run.files, run.folder)
        timing.row_count = ingested.row_count
    return ingested


def ingest_request(request: EvaluationRequest, rubric: Rubric, files: tuple[Path, ...], folder: RunFolder) -> Ingested:
    """Read the outputs that a request names into validated shards in a run's folder. Raises `OutputsError`."""
    reporter().begin("ingest", None)
    ingested = ingest_outputs(
        folder.run_id,
        files,
        folder.path,
        column_map=request.column_map,
        taken_ids=taken_ids(rubric),
        is_unscored_allowed=request.allow_unscored,
        checkpoint=request.checkpoint,
        max_bad_rate=request.max_bad_rate,
        sample=request.sample,
        advance=lambda count: reporter().advance("ingest", count),
    )
    reporter().end("ingest")
    return ingested


def write_run_feedback(run: Run, ingested: Ingested, session: Session | None) -> str | None:
    """Let the judge write its feedback where the run asks for it; returns a note for people, where there is one.

    Raises `BudgetReached` or `EndpointUnavailable`.
    """
    if not run.request.feedback or session is None or run.judge is None:
        return None
    with timed(run.folder, "score", FEEDBACK_CRITERION_ID) as timing:
        count = write_feedback(run.lake, run.folder, run.rubric, ingested.shards, session, writer_of(run.judge))
        timing.row_count, timing.replayed_count = count.asked_count + count.replayed_count, count.replayed_count
    return count.note


def plan_judgments(run: Run, ingested: Ingested) -> RunPlan:
    """Find what is not judged yet, and its price. Raises `InputError`."""
    reporter().begin("plan", None)
    with timed(run.folder, "plan") as timing:
        refuse_unpaired(run.lake, run.run_id, run.request.baseline, ingested.shards)
        settle_journals(run.lake)
        unmatched_count = 0
        own_count = write_case_criteria(run.folder, ingested.shards)
        refuse_no_criteria(run.rubric, own_count)
        ratings = read_request_ratings(run.request, run.rubric, run.files)
        is_rated = "ratings" in methods_used(run.rubric, own_count) or has_preferred(run.rubric)
        if ratings is not None or is_rated:
            unmatched_count = match_ratings(run.lake, run.folder, ingested.shards, ratings)
        planned = plan_run(
            run.lake, run.folder, run.rubric, run.judge, ingested.shards, ingested.output_count, folders=run.folders
        )
        planned = add_feedback(planned, run.request.feedback, run.judge, run.rubric, ingested)
        timing.row_count = ingested.output_count
    reporter().end("plan")
    keep_planned(run.folder, planned, ingested.output_count * len(run.rubric.criteria) + own_count.criterion_count)
    return replace(planned, unmatched_rating_count=unmatched_count, own_count=own_count)


BATCH_FOLDER = "batches"
PACE = Pace()


def ask_run_in_batches(run: Run, ingested: Ingested, planned: RunPlan) -> RunPlan:
    """Ask in batches where the judge is to be asked so; returns the plan of what is left to be asked online.

    Batches that an earlier command of the run began are brought to their end by whatever mode it has now. Raises
    `EndpointUnavailable`; what came until then is in the ledger.
    """
    judge = run.judge
    if not isinstance(judge, JudgeSettings):
        return planned
    is_wanted = judge.mode == "batch" and planned.open_count > 0
    if not is_wanted and not has_open_batches(run.folder.path / BATCH_FOLDER):
        return planned
    try:
        with timed(run.folder, "score"):
            ask_in_batches(_job(run, ingested, judge))
    finally:
        settle_run(run.lake, run.run_id)
    with timed(run.folder, "plan"):
        left = plan_run(
            run.lake, run.folder, run.rubric, judge, ingested.shards, ingested.output_count, folders=run.folders
        )
        left = add_feedback(left, run.request.feedback, judge, run.rubric, ingested)
    return replace(left, unmatched_rating_count=planned.unmatched_rating_count, own_count=planned.own_count)


def _job(run: Run, ingested: Ingested, judge: JudgeSettings) -> BatchJob:
    return BatchJob(
        judge,
        find_price(judge),
        run.run_id,
        folder=run.folder.path / BATCH_FOLDER,
        journal_folder=run.lake.journal_folder,
        budget_record=run.folder.path / "budget.jsonl",
        budget_usd=run.request.budget_usd,
        questions_of=partial(_questions, run, ingested, judge, is_held_too=False),
        planned_questions_of=partial(_questions, run, ingested, judge, is_held_too=True),
        shard_count=len(ingested.shards),
        deadline=run.request.deadline,
        is_submitting=judge.mode == "batch",
        pace=PACE,
    )


def _questions(
    run: Run, ingested: Ingested, judge: JudgeSettings, shard_index: int, *, is_held_too: bool
) -> Iterator[Askable[Any]]:
    shard = ingested.shards[shard_index]
    yield from shard_questions(
        run.folder, run.rubric, shard, shard_index, judge.style, run.folders, is_held_too=is_held_too
    )

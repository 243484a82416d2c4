"""The first steps of a run, with their times: what a flow's tasks and a review have in common."""

from dataclasses import replace
from pathlib import Path

from gradebook.rubrics.judging.feedback import FEEDBACK_CRITERION_ID
from gradebook.rubrics.model import Rubric
from gradebook.tasks.case_criteria import methods_used, refuse_no_criteria, taken_ids, write_case_criteria
from gradebook.tasks.comparing.baselines import refuse_unpaired
from gradebook.tasks.feedback import write_feedback
from gradebook.tasks.feedback_plans import add_feedback
from gradebook.tasks.ingest import Ingested, ingest_outputs
from gradebook.tasks.judging.member_sessions import Session
from gradebook.tasks.judging.panels import writer_of
from gradebook.tasks.ledger import settle_journals
from gradebook.tasks.plan import RunPlan, plan_run
from gradebook.tasks.progress import reporter
from gradebook.tasks.request import EvaluationRequest, read_request_ratings
from gradebook.tasks.resuming import keep_planned
from gradebook.tasks.runs import Run
from gradebook.tasks.scoring.preferred import has_preferred
from gradebook.tasks.scoring.ratings import match_ratings
from gradebook.tasks.timings import timed
from gradebook.tasks.workspace import RunFolder


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

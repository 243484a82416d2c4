"""Stages of a run up to its verdicts: ingest, plan, batch requests, collected verdicts, feedback."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.tasks.comparing.baseline import refuse_unpaired
from gradebook.tasks.comparing.expected_power import choose_rule, forecast_margin
from gradebook.tasks.comparing.interim_analyses import forecast_stop, plan_interim_analyses
from gradebook.tasks.datasets.case_criteria import taken_ids
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs
from gradebook.tasks.judging.batches.job import BatchJob, Pace
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import has_open_batches
from gradebook.tasks.judging.prices import find_price
from gradebook.tasks.judging.replies.list_questions import asked_judge
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.session.session import Session, refuse_bad_addresses
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.ledger.ledger import held_judgments, settle_journals, settle_run
from gradebook.tasks.methods.judge_shard import shard_questions
from gradebook.tasks.methods.plan import plan_run, prepare_plan
from gradebook.tasks.methods.table import prepare_methods
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.preferences import preference_criteria, preference_opinions, read_pairs
from gradebook.tasks.published.summary import failed_models
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.feedback import write_feedback
from gradebook.tasks.scoring.shards import collect_shard, record_work
from gradebook.tasks.stages.check_request import read_request_ratings
from gradebook.tasks.stages.open_run import store_plan_summary
from gradebook.tasks.stages.quality import store_findings, verdict_findings
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import Timing, timed

_SHORTENED = "{} shortened for the judge, by the rule in docs/trajectories.md#trajectories"


def ingest_run(run: Run) -> Ingested:
    """Read the run's outputs into validated shards.

    Raises `OutputsError`, and `InputError` as `plan_interim_analyses` does.
    """
    request = run.request
    reporter().begin("ingest", None)
    with timed(run.folder, "ingest") as timing:
        ingested = ingest_outputs(
            run.run_id,
            run.files,
            run.folder.path,
            column_map=request.column_map,
            trace_format=request.trace_format,
            model=request.row_model,
            taken_ids=taken_ids(run.rubric),
            is_unscored_allowed=request.allow_unscored,
            checkpoint=request.checkpoint,
            max_bad_rate=request.max_bad_rate,
            sample=request.sample,
            stratify=request.stratify,
            advance=lambda count: reporter().advance("ingest", count),
        )
        choose_rule(run, ingested.shards, failed_models)
        if request.stop is not None:
            ingested = plan_interim_analyses(run, ingested, failed_models)
        timing.row_count = ingested.row_count
    reporter().end("ingest")
    return ingested


def _trajectories_words(count: int) -> str:
    return "1 trajectory is" if count == 1 else f"{count:,} trajectories are"


def plan_judgments(run: Run, ingested: Ingested, *, is_preview: bool = False) -> RunPlan:
    """Find and price the missing judgments. is_preview: do not write to the lake. Raises `InputError`."""
    reporter().begin("plan", None)
    with timed(run.folder, "plan") as timing:
        refuse_unpaired(run, ingested.shards)
        if not is_preview:
            notes: list[str] = []
            settle_journals(run.lake, notes)
            run.folder.add_notes(notes)
        ratings = read_request_ratings(run.request, run.rubric, run.files)
        prepare_methods(run.lake, run.folder, run.rubric, ingested.shards, run.request.baseline)
        prepare_plan(run.lake, run.folder, run.rubric, ingested.shards, ratings)
        planned = plan_again(run, ingested, is_preview=is_preview)
        margin_sentence = forecast_margin(run, ingested.shards, failed_models)
        if is_preview:
            planned = replace(planned, stop=forecast_stop(run), shown=margin_sentence)
        elif margin_sentence is not None:
            reporter().wait(margin_sentence)
        refuse_bad_addresses(run.judge, planned.asked_judges)
        timing.row_count = ingested.output_count
    reporter().end("plan")
    verdict_count = ingested.output_count * len(run.rubric.criteria) + planned.own_count.criterion_count
    if planned.shortened_count and not is_preview:
        run.folder.add_notes([_SHORTENED.format(_trajectories_words(planned.shortened_count))])
    store_plan_summary(run.folder, planned, verdict_count)
    return planned


def plan_again(run: Run, ingested: Ingested, *, is_preview: bool = False) -> RunPlan:
    """Update the plan of `plan_judgments` after further judgments."""
    return plan_run(
        run.lake,
        run.folder,
        run.rubric,
        run.judge,
        ingested,
        feedback=run.request.feedback,
        is_preview=is_preview,
        folders=run.folders,
        embedder=run.embedder,
        baseline=run.request.baseline,
    )


PACE = Pace()


def ask_run_in_batches(run: Run, ingested: Ingested, planned: RunPlan) -> RunPlan:
    """Send batch requests if the judge's mode is batch; returns the plan of the remaining online requests.

    Batches that an earlier command of the run started are finished in any mode. Raises `EndpointUnavailable`; replies
    received before that are in the ledger.
    """
    judge = None if run.judge is None else run.judge.as_model
    if judge is None:
        return planned
    is_wanted = judge.mode == "batch" and planned.open_count > 0
    if not is_wanted and not has_open_batches(run.folder.batch_folder):
        return planned
    try:
        with timed(run.folder, "score"):
            ask_in_batches(_batch_job(run, ingested, judge))
    finally:
        settle_run(run.lake, run.folder)
    with timed(run.folder, "plan"):
        return plan_again(run, ingested)


def _batch_job(run: Run, ingested: Ingested, judge: JudgeSettings) -> BatchJob:
    return BatchJob(
        judge,
        find_price(judge),
        run.run_id,
        folder=run.folder.batch_folder,
        journal_folder=run.lake.journal_folder,
        budget_record=run.folder.budget_file,
        budget_usd=run.request.budget_usd,
        questions_of=partial(_open_questions, run, ingested, judge, includes_stored=False),
        planned_questions_of=partial(_open_questions, run, ingested, judge, includes_stored=True),
        shard_count=len(ingested.shards),
        deadline=run.request.deadline,
        is_submitting=judge.mode == "batch",
        pace=PACE,
    )


def _open_questions(
    run: Run, ingested: Ingested, judge: JudgeSettings, shard_index: int, *, includes_stored: bool
) -> Iterator[Askable[Any]]:
    shard = ingested.shards[shard_index]
    yield from shard_questions(
        run.folder, run.rubric, shard, shard_index, judge.style, run.folders, includes_stored=includes_stored
    )
    asked = asked_judge(judge)
    for criterion in preference_criteria(run.rubric):
        pairs = [*read_pairs(run.folder, criterion.id, shard, shard_index)]
        votes = judge.drawn_votes(preference_opinions(judge, criterion.id), [pair.output_id for pair in pairs])
        questions = {
            question.request_key: question
            for row, vote in votes
            for question in pairs[row].questions(criterion, asked, vote.replicate)
        }
        stored_judgments = {} if includes_stored or not questions else held_judgments(run.lake, list(questions))
        yield from (question for key, question in questions.items() if key not in stored_judgments)


def collect_verdicts(run: Run, shard_index: int, computed: tuple[Timing, ...]) -> None:
    """Collect the verdicts of one shard, and check them in SQL.

    computed: timings of a cluster's workers. Raises `QualityNotMet`.
    """
    record_work(run.folder, shard_index, computed)
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index) as timing:
        timing.row_count = collect_shard(run.folder, run.rubric, shard_index)
        store_findings(run.folder, verdict_findings(run.folder, shard_index))


def write_run_feedback(run: Run, ingested: Ingested, session: Session | None) -> str | None:
    """Let the judge, if there is one, write feedback; returns a note, if any.

    Raises `BudgetReached` or `EndpointUnavailable`.
    """
    if session is None or run.judge is None:
        return None
    with timed(run.folder, "score", FEEDBACK_CRITERION_ID) as timing:
        count = write_feedback(run.lake, run.folder, run.rubric, ingested.shards, session, run.judge.writer)
        timing.row_count, timing.replayed_count = count.asked_count + count.replayed_count, count.replayed_count
    return count.note

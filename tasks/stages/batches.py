"""Batch requests of a run, sent or finished before the remaining requests are sent online."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.batches.job import BatchJob, Pace
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import has_open_batches
from gradebook.tasks.judging.money.prices import find_price
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import drawn_opinions
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.preferences import preference_criteria, preference_opinions, read_pairs
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.shard_questions import shard_questions
from gradebook.tasks.stages.plan import plan_again
from gradebook.tasks.workspace.timings import timed

PACE = Pace()


def ask_run_in_batches(run: Run, ingested: Ingested, planned: RunPlan) -> RunPlan:
    """Send batch requests if the judge's mode is batch; returns the plan of the remaining online requests.

    Batches that an earlier command of the run started are finished in any mode. Raises `EndpointUnavailable`; replies
    received before that are in the ledger.
    """
    judge = run.judge
    if not isinstance(judge, JudgeSettings):
        return planned
    is_wanted = judge.mode == "batch" and planned.open_count > 0
    if not is_wanted and not has_open_batches(run.folder.batch_folder):
        return planned
    try:
        with timed(run.folder, "score"):
            ask_in_batches(_job(run, ingested, judge))
    finally:
        settle_run(run.lake, run.folder)
    with timed(run.folder, "plan"):
        return plan_again(run, ingested)


def _job(run: Run, ingested: Ingested, judge: JudgeSettings) -> BatchJob:
    return BatchJob(
        judge,
        find_price(judge),
        run.run_id,
        folder=run.folder.batch_folder,
        journal_folder=run.lake.journal_folder,
        budget_record=run.folder.budget_file,
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
    for criterion in preference_criteria(run.rubric):
        pairs = [*read_pairs(run.folder, criterion.id, shard, shard_index)]
        votes = drawn_opinions(judge, preference_opinions(judge, criterion.id), [pair.output_id for pair in pairs])
        asked = {
            each.request_key: each
            for row, vote in votes
            for each in pairs[row].questions(criterion, judge.judge_digest, vote.replicate)
        }
        held = {} if is_held_too or not asked else held_judgments(run.lake, list(asked))
        yield from (question for key, question in asked.items() if key not in held)

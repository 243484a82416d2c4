"""A job of twelve questions in three shards for tests of batches, and what came of it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.tasks.judging.batches.job import BatchJob, Pace
from gradebook.tasks.judging.budget import BudgetRecord
from gradebook.tasks.judging.prices import Price
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.loopback_judge import LoopbackJudge

PRICE = Price(input_usd=1e-6, cached_usd=1e-6, output_usd=1e-6)
PACE = Pace(first_poll_s=0.01, most_poll_s=0.02, cancel_s=0.3)
SHARDS = (0, 1, 2)
A_SHARD = 4
COUNT = len(SHARDS) * A_SHARD
TONE = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it warm?",
        "method": {"type": "judge"},
        "levels": [{"id": level_id, "score": score} for level_id, score in (("bad", 0), ("fair", 0.5), ("good", 1))],
    }
)


def make_job(judge: LoopbackJudge, folder: Path) -> BatchJob:
    settings = JudgeSettings(model="m", base_url=judge.base_url, mode="batch", max_tokens=100)
    return BatchJob(
        settings,
        PRICE,
        "run",
        folder=folder / "batches",
        journal_folder=folder / "journal",
        budget_record=folder / "budget.jsonl",
        budget_usd=None,
        questions_of=questions_of,
        shard_count=len(SHARDS),
        pace=PACE,
    )


def questions_of(shard: int) -> Iterator[Question]:
    for number in range(shard * A_SHARD, (shard + 1) * A_SHARD):
        case = Case(f"Question {number}?", "Thank you for asking.")
        key = request_key("0" * 32, criterion_digest(TONE), case_digest(case))
        yield Question(f"{number:032x}", TONE, case, key)


ALL_KEYS = [question.request_key for shard in SHARDS for question in questions_of(shard)]


def journaled(job: BatchJob) -> pa.Table:
    """Rows that the ledger would store: the first of each id."""
    tables = [table for path in settled_journals(job.journal_folder) for table in read_journal(path, 100)]
    rows = {row["judgment_id"]: row for table in reversed(tables) for row in table.to_pylist()}
    return pa.Table.from_pylist(list(rows.values()), schema=JUDGMENT_SCHEMA)


def spent_usd(job: BatchJob) -> float:
    record = BudgetRecord(job.budget_record)
    record.close()
    return record.spent_usd


def billed_usd(judge: LoopbackJudge) -> float:
    return (judge.prompt_tokens + judge.completion_tokens) * 1e-6 / 2

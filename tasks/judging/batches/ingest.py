"""Ingestion of a batch: each reply is read and journaled under its question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.digests import digest_of
from gradebook.tasks.judging.batches.files import BATCH_TIER, index_replies, read_reply_at, read_request_keys
from gradebook.tasks.judging.batches.job import BatchJob
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.money.prices import cost_usd, least_prompt_tokens, prompt_bytes
from gradebook.tasks.judging.replies.completion import Reply, drop_false_usage
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import judgment_row, read_parts, reply_columns
from gradebook.tasks.judging.replies.question import Askable, unread


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    """Number of replies of a batch, and their cost; a reply without a credible usage counts at its worst cost."""

    reply_count: int
    cost_usd: float


def reply_paths(folder: Path, intent_id: str) -> tuple[Path, Path]:
    """Paths of an intent's replies until they are journaled: the endpoint provides up to two files."""
    return folder / f"{intent_id}.replies-0.jsonl", folder / f"{intent_id}.replies-1.jsonl"


def journal_replies(
    job: BatchJob, intent: Intent, paths: Sequence[Path], latency_ms: float, executed_count: int
) -> IngestedBatch:
    """Journal the replies in a batch's files that answer an open question.

    latency_ms: of the whole batch. executed_count: requests that the endpoint executed; those that no line is about
    may have been billed, and count at the cost of the largest request. A reply that was journaled before gets the same
    id again, and adds nothing to the ledger.
    """
    replies = index_replies(paths, read_request_keys(job.folder, intent.intent_id), job.price, intent.largest_usd)
    reply_count = len(replies.places)
    counted_usd = replies.cost_usd + replies.lost_count(executed_count) * intent.largest_usd
    if not replies.places:
        return IngestedBatch(reply_count, counted_usd)
    with Journal(job.journal_folder, job.run_id) as journal:
        for question in _questions_of(job, intent):
            place = replies.places.pop(question.request_key, None)
            reply = None if place is None else read_reply_at(*place)
            if reply is not None:
                judgment = _judgment(job, intent, question, replace(reply, latency_ms=latency_ms))
                journal.append(judgment)
                if reply.usage is not None and judgment["prompt_tokens"] is None:  # its usage is not credible
                    counted_usd += intent.largest_usd - (cost_usd(job.price, reply.usage, tier=BATCH_TIER) or 0.0)
    return IngestedBatch(reply_count, counted_usd)


def _questions_of(job: BatchJob, intent: Intent) -> Iterator[Askable[Any]]:
    for shard in range(intent.first_shard, min(intent.last_shard + 1, job.shard_count)):
        yield from (job.planned_questions_of or job.questions_of)(shard)


def _judgment(job: BatchJob, intent: Intent, question: Askable[Any], reply: Reply) -> dict[str, Any]:
    request = unread(question).request()
    read = read_parts(request, reply, is_plain=job.settings.is_plain)[0]
    reply = drop_false_usage(reply, least_prompt_tokens(request.messages))
    paid_usd = None if reply.usage is None else cost_usd(job.price, reply.usage, tier=BATCH_TIER)
    asked_at = intent.submitted_at or intent.intended_at
    return (
        judgment_row(job.run_id, question, job.settings.judge, read)
        | reply_columns(reply, paid_usd, prompt_bytes(request.messages, request.schema), 1, asked_at)
        | {"judgment_id": digest_of(f"{intent.intent_id}/{question.request_key}")}
    )

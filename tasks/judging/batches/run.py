"""Batches of a run, ahead of the scoring: recovered, submitted, polled, and their replies journaled.

Each request is sent once, however far an earlier process came. Questions without a reply are asked online.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.rubrics.model.json_values import digest_of
from gradebook.tasks.judging.batches.endpoint import COMPLETED, BatchState, NoAnswer, open_batches
from gradebook.tasks.judging.batches.files import (
    BATCH_TIER,
    RequestFile,
    index_replies,
    read_reply_at,
    read_request_keys,
    remove_requests,
    requests_path,
    write_request_files,
)
from gradebook.tasks.judging.batches.job import BatchContext, BatchJob, Patience
from gradebook.tasks.judging.batches.state import BatchRecord, Intent
from gradebook.tasks.judging.budget import BatchBudget
from gradebook.tasks.judging.prices import cost_usd, least_prompt_tokens, prompt_bytes
from gradebook.tasks.judging.replies.completion import Reply, drop_false_usage
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import judgment_row, read_parts, reply_columns
from gradebook.tasks.judging.replies.question import Askable, unread
from gradebook.tasks.system.progress import reporter


def ask_in_batches(job: BatchJob) -> tuple[Intent, ...]:
    """Ask the open questions in batches and journal the replies; returns all batches of the run with their endings.

    Resumes the work of an earlier process. Raises `EndpointUnavailable` if the endpoint has no Batch API, or stops
    answering.
    """
    with (
        BatchRecord(job.folder) as record,
        BatchBudget(job.budget_usd, None if job.price is None else job.budget_record) as budget,
        open_batches(job.settings, job.folder) as endpoint,
    ):
        context = BatchContext(
            job, record, budget, endpoint, Patience(job.settings, job.pace.first_poll_s, job.deadline)
        )
        recover(context)
        if has_time(context):
            submit(context)
        collect(context)
        clean_up(context)
        return record.intents


NOT_SENT = "not_sent"  # ending of an intent without a batch; its questions stay open


def recover(context: BatchContext) -> None:
    """Find out how far an earlier process came with its submissions."""
    for intent in context.record.open_intents:
        if intent.base_url != context.job.settings.base_url and intent.file_id is not None:
            raise EndpointUnavailable(
                f"{context.job.settings.base_url}: a batch of this run is at {intent.base_url}; expected that address "
                "until its replies are here"
            )
        context.budget.reserve(intent.ticket, intent.worst_usd)
        if intent.file_id is None:
            context.end(intent, NOT_SENT, cost_usd=0.0)
        elif intent.batch_id is None:
            _recover_upload(context, intent, intent.file_id)


def _recover_upload(context: BatchContext, intent: Intent, file_id: str) -> None:
    """Find the batch of an uploaded file, which may have been created without our receiving the answer."""
    batch_id = context.patience.insist(partial(_find_batch, context, intent))
    if batch_id is not None:
        context.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    elif has_time(context) and context.patience.insist(partial(context.endpoint.has_file, file_id)):
        _begin(context, intent, file_id)
    else:
        context.end(intent, NOT_SENT, cost_usd=0.0)


def _find_batch(context: BatchContext, intent: Intent) -> str | None:
    other_ids = {other.batch_id for other in context.record.intents if other.batch_id is not None}
    return context.endpoint.find(intent, other_ids)


def has_time(context: BatchContext) -> bool:
    """Whether a new batch is wanted, and could finish before the deadline."""
    is_late = context.last_sending is not None and datetime.now(UTC) > context.last_sending
    return context.job.is_submitting and not is_late


def submit(context: BatchContext) -> None:
    """Send the questions that no batch of this run contains yet, as far as budget and time allow."""
    job = context.job
    questions = _new_questions(context)
    for file in write_request_files(
        job.folder, questions, job.settings, job.price, context.budget.left_usd, job.limits
    ):
        if not (has_time(context) and _send(context, file)):  # writing and sending large files takes minutes
            remove_requests(job.folder, file.intent_id)
            return


def _send(context: BatchContext, file: RequestFile) -> bool:
    """Upload a file and create its batch; False if the upload did not finish in time, which costs nothing."""
    intent = _intend(context, file)
    try:
        file_id = context.patience.insist(partial(context.endpoint.upload, file.path), context.last_sending)
    except NoAnswer:
        context.end(intent, NOT_SENT, cost_usd=0.0)
        return False
    _begin(context, context.record.note(intent, file_id=file_id), file_id)
    return True


def _new_questions(context: BatchContext) -> Iterator[tuple[int, Askable[Any]]]:
    sent = [intent.intent_id for intent in context.record.intents if intent.ending != NOT_SENT]
    taken = {bytes.fromhex(key) for intent_id in sent for key in read_request_keys(context.job.folder, intent_id)}
    for shard in range(context.job.shard_count):
        for question in context.job.questions_of(shard):
            key = bytes.fromhex(question.request_key)
            if key not in taken:
                taken.add(key)
                yield shard, question


def _intend(context: BatchContext, file: RequestFile) -> Intent:
    """Record a file before it is sent, and reserve its worst cost."""
    intent = Intent(
        intent_id=file.intent_id,
        base_url=context.job.settings.base_url,
        digest=file.digest,
        request_count=file.request_count,
        worst_usd=file.worst_usd,
        largest_usd=file.largest_usd,
        ticket=context.budget.next_ticket,
        first_shard=file.first_shard,
        last_shard=file.last_shard,
        intended_at=datetime.now(UTC),
    )
    context.record.add(intent)
    context.budget.reserve(intent.ticket, intent.worst_usd)
    return intent


def _begin(context: BatchContext, intent: Intent, file_id: str) -> None:
    """Create the batch of an uploaded file once: after an attempt without an answer it is searched for first."""
    is_first_try = True

    def begin() -> str:
        nonlocal is_first_try
        existing_id = None if is_first_try else _find_batch(context, intent)
        is_first_try = False
        return existing_id or context.endpoint.create(file_id, intent.intent_id, context.job.run_id)

    batch_id = context.patience.insist(begin)
    context.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    requests_path(context.job.folder, intent.intent_id).unlink(missing_ok=True)


LOST = "lost"  # ending of a batch whose replies the endpoint no longer has
MOST_MISSES = 3  # consecutive polls in which the endpoint may not know a batch
STAGE = "batch"


@dataclass(slots=True)
class _Wait:
    """Batch to wait for."""

    intent: Intent
    stop_time: datetime
    done_count: int = 0
    miss_count: int = 0
    is_cancelled: bool = False  # then stop_time is the latest end

    @property
    def seconds_left(self) -> float:
        """Seconds until the batch is abandoned."""
        return (self.stop_time - datetime.now(UTC)).total_seconds()

    def advance(self, done_count: int) -> None:
        """Report the number of replies."""
        if done_count > self.done_count:
            reporter().advance(STAGE, done_count - self.done_count)
            self.done_count = done_count


def collect(context: BatchContext) -> None:
    """Wait for all batches, and journal the replies of each as soon as it has ended."""
    waits = [_Wait(intent, _stop_time(context, intent)) for intent in context.record.open_intents]
    if not waits:
        return
    reporter().begin(STAGE, sum(wait.intent.request_count for wait in waits))
    poll_s = context.job.pace.first_poll_s
    context.patience.renew()
    while waits := [wait for wait in waits if not _poll_once(context, wait)]:
        stops_s = (wait.seconds_left for wait in waits)
        time.sleep(min(poll_s, *(left_s for left_s in stops_s if left_s > 0), math.inf))
        poll_s = min(poll_s * 1.5, context.job.pace.most_poll_s)
    reporter().end(STAGE)


def _stop_time(context: BatchContext, intent: Intent) -> datetime:
    """Time at which a batch is abandoned: after its window, or before the deadline."""
    job = context.job
    if not job.is_submitting:
        return datetime.now(UTC)
    window_ends = (intent.submitted_at or intent.intended_at) + timedelta(seconds=job.pace.window_s)
    if job.deadline is None:
        return window_ends
    had_s = (job.deadline - intent.intended_at).total_seconds()
    margin = timedelta(seconds=max(job.pace.margin_s, job.pace.margin_rate * had_s))
    return min(window_ends, job.deadline - margin)


def _poll_once(context: BatchContext, wait: _Wait) -> bool:
    """Poll one batch; returns whether it is finished."""
    intent = wait.intent
    try:
        state = context.endpoint.retrieve(str(intent.batch_id))
        wait.miss_count = wait.miss_count + 1 if state is None else 0
        if state is not None:
            wait.advance(state.done_count)
        if state is not None and state.has_ended:
            _ingest(context, intent, state)
            return True
        if state is not None:
            _stop_late(context, wait)
        context.patience.renew()  # renewed only here, as progress reports alone bring no reply
    except NoAnswer as fault:
        context.patience.lose(str(fault))
    if wait.miss_count < MOST_MISSES:
        return False
    context.end(intent, LOST)
    return True


def _stop_late(context: BatchContext, wait: _Wait) -> None:
    """Cancel a batch after its time; finished replies still arrive."""
    if wait.seconds_left > 0:
        return
    if not wait.is_cancelled:
        context.endpoint.cancel(str(wait.intent.batch_id))
        wait.is_cancelled, wait.stop_time = True, _cancel_ends(context)
        return
    raise EndpointUnavailable(
        f"{context.job.settings.base_url}: the batch {wait.intent.batch_id} was cancelled and has not ended yet; "
        "the same command resumes"
    )


def _cancel_ends(context: BatchContext) -> datetime:
    """Latest time to wait for a cancelled batch, at most the deadline."""
    ends = datetime.now(UTC) + timedelta(seconds=context.job.pace.cancel_s)
    return ends if context.job.deadline is None else min(ends, context.job.deadline)


def _ingest(context: BatchContext, intent: Intent, state: BatchState) -> None:
    """Journal the replies of a batch, then record its end; after a kill in between, both are repeated."""
    paths = reply_paths(context.job.folder, intent.intent_id)
    wanted = list(zip(paths, state.file_ids, strict=False))
    fetched = [path for path, file_id in wanted if path.exists() or context.endpoint.download(file_id, path)]
    executed_count = intent.request_count if state.status == COMPLETED else state.done_count
    ingested = journal_replies(
        context.job, intent, fetched, state.latency_ms, min(executed_count, intent.request_count)
    )
    is_whole = len(fetched) == len(wanted)  # otherwise the endpoint has deleted paid replies
    context.end(
        intent,
        state.status if is_whole else LOST,
        ingested.cost_usd if is_whole else None,
        reason=state.reason,
        reply_count=ingested.reply_count,
        remote_files=state.file_ids,
    )


def clean_up(context: BatchContext) -> None:
    """Delete finished files, here and at the endpoint; files that cannot be deleted there expire."""
    folder = context.job.folder
    for intent in context.record.intents:
        if intent.ending is None:
            continue
        for path in (requests_path(folder, intent.intent_id), *reply_paths(folder, intent.intent_id)):
            path.unlink(missing_ok=True)
        if intent.ending == NOT_SENT:
            remove_requests(folder, intent.intent_id)
        if intent.remote_files:
            _delete_remote(context, intent)


def _delete_remote(context: BatchContext, intent: Intent) -> None:
    try:
        for file_id in intent.remote_files:
            context.endpoint.delete(file_id)
    except NoAnswer:  # the run's next command tries again
        return
    context.record.note(intent, remote_files=())


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

    latency_ms: of the whole batch. executed_count: requests that the endpoint executed; one without a line may have
    been billed, and counts at the cost of the largest request. A reply that was journaled before gets the same id
    again, and adds nothing to the ledger.
    """
    replies = index_replies(paths, read_request_keys(job.folder, intent.intent_id), job.price, intent.largest_usd)
    reply_count = len(replies.places)
    counted_usd = replies.cost_usd + replies.lost_count(executed_count) * intent.largest_usd
    if not replies.places:
        return IngestedBatch(reply_count, counted_usd)
    with Journal(job.journal_folder, job.run_id) as journal:
        for question in _questions_of(job, intent):
            file_and_offset = replies.places.pop(question.request_key, None)
            reply = None if file_and_offset is None else read_reply_at(*file_and_offset)
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

"""Submission of a run's batches, each once, however far an earlier process came."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.endpoint import NoAnswer
from gradebook.tasks.judging.batches.files import (
    RequestFile,
    read_request_keys,
    remove_requests,
    requests_path,
    write_request_files,
)
from gradebook.tasks.judging.batches.job import BatchContext
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.replies.question import Askable

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
    batch_id = context.patience.insist(partial(context.endpoint.find, intent.intent_id, file_id))
    if batch_id is not None:
        context.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    elif has_time(context) and context.patience.insist(partial(context.endpoint.has_file, file_id)):
        _begin(context, intent, file_id)
    else:
        context.end(intent, NOT_SENT, cost_usd=0.0)


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
        found = None if is_first_try else context.endpoint.find(intent.intent_id, file_id)
        is_first_try = False
        return found or context.endpoint.create(file_id, intent.intent_id, context.job.run_id)

    batch_id = context.patience.insist(begin)
    context.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    requests_path(context.job.folder, intent.intent_id).unlink(missing_ok=True)

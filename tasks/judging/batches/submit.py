"""Sending the batches of a run, each once, whatever an earlier process came to do."""

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
from gradebook.tasks.judging.batches.job import BatchDesk
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.replies.question import Askable

NOT_SENT = "not_sent"  # how an intent ended whose batch was never begun: its questions are open to another


def recover(desk: BatchDesk) -> None:
    """Find out how far an earlier process came with what it meant to send."""
    for intent in desk.record.open_intents:
        if intent.base_url != desk.job.settings.base_url and intent.file_id is not None:
            raise EndpointUnavailable(
                f"{desk.job.settings.base_url}: a batch of this run is at {intent.base_url}; expected that address "
                "until its replies are here"
            )
        desk.money.reserve(intent.ticket, intent.worst_usd)
        if intent.file_id is None:
            desk.end(intent, NOT_SENT, cost_usd=0.0)
        elif intent.batch_id is None:
            _recover_upload(desk, intent, intent.file_id)


def _recover_upload(desk: BatchDesk, intent: Intent, file_id: str) -> None:
    """A file was uploaded: its batch may have been begun without our hearing of it."""
    batch_id = desk.patience.insist(partial(desk.endpoint.find, intent.intent_id, file_id))
    if batch_id is not None:
        desk.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    elif has_time(desk) and desk.patience.insist(partial(desk.endpoint.has_file, file_id)):
        _begin(desk, intent, file_id)
    else:
        desk.end(intent, NOT_SENT, cost_usd=0.0)


def has_time(desk: BatchDesk) -> bool:
    """Whether a batch begun now is wanted, and could come to something before the deadline."""
    is_late = desk.last_sending is not None and datetime.now(UTC) > desk.last_sending
    return desk.job.is_submitting and not is_late


def submit(desk: BatchDesk) -> None:
    """Send whatever no batch of this run has held yet, as far as the money and the time go."""
    job = desk.job
    questions = _new_questions(desk)
    for file in write_request_files(job.folder, questions, job.settings, job.price, desk.money.left_usd, job.limits):
        if not (has_time(desk) and _send(desk, file)):  # writing and sending large files takes minutes
            remove_requests(job.folder, file.intent_id)
            return


def _send(desk: BatchDesk, file: RequestFile) -> bool:
    """Upload a file and begin its batch; False where it could not be uploaded in time, which costs nothing."""
    intent = _intend(desk, file)
    try:
        file_id = desk.patience.insist(partial(desk.endpoint.upload, file.path), desk.last_sending)
    except NoAnswer:
        desk.end(intent, NOT_SENT, cost_usd=0.0)
        return False
    _begin(desk, desk.record.note(intent, file_id=file_id), file_id)
    return True


def _new_questions(desk: BatchDesk) -> Iterator[tuple[int, Askable[Any]]]:
    held = [intent.intent_id for intent in desk.record.intents if intent.ending != NOT_SENT]
    taken = {bytes.fromhex(key) for intent_id in held for key in read_request_keys(desk.job.folder, intent_id)}
    for shard in range(desk.job.shard_count):
        for question in desk.job.questions_of(shard):
            key = bytes.fromhex(question.request_key)
            if key not in taken:
                taken.add(key)
                yield shard, question


def _intend(desk: BatchDesk, file: RequestFile) -> Intent:
    """Note a file before it is sent, with the money that it can cost set aside."""
    intent = Intent(
        intent_id=file.intent_id,
        base_url=desk.job.settings.base_url,
        digest=file.digest,
        request_count=file.request_count,
        worst_usd=file.worst_usd,
        largest_usd=file.largest_usd,
        ticket=desk.money.next_ticket,
        first_shard=file.first_shard,
        last_shard=file.last_shard,
        intended_at=datetime.now(UTC),
    )
    desk.record.add(intent)
    desk.money.reserve(intent.ticket, intent.worst_usd)
    return intent


def _begin(desk: BatchDesk, intent: Intent, file_id: str) -> None:
    """Begin the batch of an uploaded file, once: after a try without an answer it is looked for first."""
    is_first_try = True

    def begin() -> str:
        nonlocal is_first_try
        found = None if is_first_try else desk.endpoint.find(intent.intent_id, file_id)
        is_first_try = False
        return found or desk.endpoint.create(file_id, intent.intent_id, desk.job.run_id)

    batch_id = desk.patience.insist(begin)
    desk.record.note(intent, batch_id=batch_id, submitted_at=datetime.now(UTC))
    requests_path(desk.job.folder, intent.intent_id).unlink(missing_ok=True)

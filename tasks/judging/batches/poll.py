"""Waiting for the batches of a run, and taking in what they bring."""

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.endpoint import BatchState, NoAnswer
from gradebook.tasks.judging.batches.files import remove_requests, requests_path
from gradebook.tasks.judging.batches.ingest import journal_replies, reply_paths
from gradebook.tasks.judging.batches.job import BatchDesk
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.batches.submit import NOT_SENT
from gradebook.tasks.system.progress import reporter

LOST = "lost"  # how a batch ended whose replies the endpoint has no more
MOST_MISSES = 3  # how often an endpoint may not know a batch of its own
STAGE = "batch"


@dataclass(slots=True)
class _Wait:
    """A batch that is waited for."""

    intent: Intent
    stop_time: datetime
    done_count: int = 0
    miss_count: int = 0
    is_cancelled: bool = False  # then stop_time is when it has to have ended

    @property
    def seconds_left(self) -> float:
        """Until it is given up."""
        return (self.stop_time - datetime.now(UTC)).total_seconds()

    def advance(self, done_count: int) -> None:
        """Tell whoever watches how many replies there are now."""
        if done_count > self.done_count:
            reporter().advance(STAGE, done_count - self.done_count)
            self.done_count = done_count


def collect(desk: BatchDesk) -> None:
    """Wait for all batches, and journal the replies of each as soon as it has ended."""
    waits = [_Wait(intent, _stop_time(desk, intent)) for intent in desk.record.open_intents]
    if not waits:
        return
    reporter().begin(STAGE, sum(wait.intent.request_count for wait in waits))
    poll_s = desk.job.pace.first_poll_s
    desk.patience.renew()
    while waits := [wait for wait in waits if not _is_done(desk, wait)]:
        stops_s = (wait.seconds_left for wait in waits)
        time.sleep(min(poll_s, *(left_s for left_s in stops_s if left_s > 0), math.inf))
        poll_s = min(poll_s * 1.5, desk.job.pace.most_poll_s)
    reporter().end(STAGE)


def _stop_time(desk: BatchDesk, intent: Intent) -> datetime:
    """When a batch is given up: after its window, or before the deadline."""
    job = desk.job
    if not job.is_submitting:
        return datetime.now(UTC)
    window_ends = (intent.submitted_at or intent.intended_at) + timedelta(seconds=job.pace.window_s)
    if job.deadline is None:
        return window_ends
    had_s = (job.deadline - intent.intended_at).total_seconds()
    margin = timedelta(seconds=max(job.pace.margin_s, job.pace.margin_rate * had_s))
    return min(window_ends, job.deadline - margin)


def _is_done(desk: BatchDesk, wait: _Wait) -> bool:
    """Look after one batch; whether there is nothing more to do for it."""
    intent = wait.intent
    try:
        state = desk.endpoint.retrieve(str(intent.batch_id))
        wait.miss_count = wait.miss_count + 1 if state is None else 0
        if state is not None:
            wait.advance(state.done_count)
        if state is not None and state.has_ended:
            _take_in(desk, intent, state)
            return True
        if state is not None:
            _stop_late(desk, wait)
        desk.patience.renew()  # once all went well: an endpoint that only tells how far it is brings nothing
    except NoAnswer as fault:
        desk.patience.lose(str(fault))
    if wait.miss_count < MOST_MISSES:
        return False
    desk.end(intent, LOST)
    return True


def _stop_late(desk: BatchDesk, wait: _Wait) -> None:
    """Cancel a batch whose time is over; what it has done until then still comes."""
    if wait.seconds_left > 0:
        return
    if not wait.is_cancelled:
        desk.endpoint.cancel(str(wait.intent.batch_id))
        wait.is_cancelled, wait.stop_time = True, _cancel_ends(desk)
        return
    raise EndpointUnavailable(
        f"{desk.job.settings.base_url}: the batch {wait.intent.batch_id} was cancelled and has not ended yet; "
        "the same command goes on"
    )


def _cancel_ends(desk: BatchDesk) -> datetime:
    """Until when to wait for a batch that was cancelled: not beyond the deadline."""
    ends = datetime.now(UTC) + timedelta(seconds=desk.job.pace.cancel_s)
    return ends if desk.job.deadline is None else min(ends, desk.job.deadline)


def _take_in(desk: BatchDesk, intent: Intent, state: BatchState) -> None:
    """Journal what a batch brought, then count it: a process that dies between the two does it again."""
    paths = reply_paths(desk.job.folder, intent.intent_id)
    wanted = list(zip(paths, state.file_ids, strict=False))
    fetched = [path for path, file_id in wanted if path.exists() or desk.endpoint.download(file_id, path)]
    brought = journal_replies(desk.job, intent, fetched, state.latency_ms)
    is_whole = len(fetched) == len(wanted)  # else the endpoint has deleted replies that were paid for
    desk.end(
        intent,
        state.status if is_whole else LOST,
        brought.cost_usd if is_whole else None,
        reason=state.reason,
        reply_count=brought.reply_count,
        remote_files=state.file_ids,
    )


def clean_up(desk: BatchDesk) -> None:
    """Delete what has served its purpose, here and at the endpoint; what can't be deleted there expires there."""
    folder = desk.job.folder
    for intent in desk.record.intents:
        if intent.ending is None:
            continue
        for path in (requests_path(folder, intent.intent_id), *reply_paths(folder, intent.intent_id)):
            path.unlink(missing_ok=True)
        if intent.ending == NOT_SENT:
            remove_requests(folder, intent.intent_id)
        if intent.remote_files:
            _delete_remote(desk, intent)


def _delete_remote(desk: BatchDesk, intent: Intent) -> None:
    try:
        for file_id in intent.remote_files:
            desk.endpoint.delete(file_id)
    except NoAnswer:  # the next command of the run tries again, where there is one
        return
    desk.record.note(intent, remote_files=())

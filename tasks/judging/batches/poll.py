"""Poll of a run's batches, and the ingestion of their replies."""

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.endpoint import COMPLETED, BatchState, NoAnswer
from gradebook.tasks.judging.batches.files import remove_requests, requests_path
from gradebook.tasks.judging.batches.ingest import journal_replies, reply_paths
from gradebook.tasks.judging.batches.job import BatchContext
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.batches.submit import NOT_SENT
from gradebook.tasks.system.progress import reporter

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

"""Batches of a run, ahead of the scoring; questions without a reply are asked online."""

from gradebook.tasks.judging.batches.budget import BatchBudget
from gradebook.tasks.judging.batches.endpoint import BatchEndpoint
from gradebook.tasks.judging.batches.job import BatchContext, BatchJob, Patience
from gradebook.tasks.judging.batches.poll import clean_up, collect
from gradebook.tasks.judging.batches.state import BatchRecord, Intent
from gradebook.tasks.judging.batches.submit import has_time, recover, submit


def ask_in_batches(job: BatchJob) -> tuple[Intent, ...]:
    """Ask the open questions in batches and journal the replies; returns all batches of the run with their endings.

    Resumes the work of an earlier process. Raises `EndpointUnavailable` if the endpoint has no Batch API, or stops
    answering.
    """
    with (
        BatchRecord(job.folder) as record,
        BatchBudget(job.budget_usd, None if job.price is None else job.budget_record) as budget,
        BatchEndpoint(job.settings) as endpoint,
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

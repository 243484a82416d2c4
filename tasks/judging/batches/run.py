"""Batches of a run: what is open is asked at half the price, ahead of the scoring; what they leave is asked online."""

from gradebook.tasks.judging.batches.budget import BatchMoney
from gradebook.tasks.judging.batches.endpoint import BatchEndpoint
from gradebook.tasks.judging.batches.job import BatchDesk, BatchJob, Patience
from gradebook.tasks.judging.batches.poll import clean_up, collect
from gradebook.tasks.judging.batches.state import BatchRecord, Intent
from gradebook.tasks.judging.batches.submit import has_time, recover, submit


def ask_in_batches(job: BatchJob) -> tuple[Intent, ...]:
    """Ask what is open in batches and journal the replies; returns all batches of the run, and how each ended.

    Goes on where an earlier process stopped. Raises `EndpointUnavailable` where the endpoint takes no batches, or does
    not answer any more.
    """
    with (
        BatchRecord(job.folder) as record,
        BatchMoney(job.budget_usd, None if job.price is None else job.budget_record) as money,
        BatchEndpoint(job.settings) as endpoint,
    ):
        desk = BatchDesk(job, record, money, endpoint, Patience(job.settings, job.pace.first_poll_s, job.deadline))
        recover(desk)
        if has_time(desk):
            submit(desk)
        collect(desk)
        clean_up(desk)
        return record.intents

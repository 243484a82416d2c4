"""Sessions of a run with its judges, from the first question to the settled ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from gradebook.tasks.judging.session.session import JudgingSession, Money, Session, open_sessions, probe_members
from gradebook.tasks.judging.settings.panels import FIRST, CascadeSettings
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.shard_plan import open_keys
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import Timing, append_timing


@contextmanager
def judging(run: Run, plan: RunPlan) -> Iterator[tuple[Session, ...]]:
    """One session per judge of the run while the block runs; none without a judge.

    All replies are settled into the ledger afterwards, also after a failure. Raises `EndpointUnavailable` if a question
    is open and the endpoint does not answer or refuses the key.
    """
    if run.judge is None:
        yield ()
        return
    probe_members(run.judge, plan.asked_judges)
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        deadline = run.request.deadline
        is_read = plan.replayed_count > 0
        with open_sessions(run.judge, money, run.lake.journal_folder, run.run_id, deadline, is_read) as sessions:
            _acquire_leases(run, sessions)
            reporter().begin("judge", plan.open_count or None)  # one request may answer several
            try:
                yield sessions
            finally:  # a resuming command does not know these notes
                online = [session for session in sessions if isinstance(session, JudgingSession)]
                run.folder.add_notes(session.note for session in online)
                run.folder.add_notes(session.doubt(is_maybe_cut=False) for session in online)
                run.folder.add_warnings(session.doubt(is_maybe_cut=True) for session in online)
            reporter().end("judge")
            cpu_s = max(session.cpu_s for session in sessions)  # sessions of one run share a thread
        # One thread asks for all criteria, so its time belongs to none of them.
        append_timing(run.folder, Timing("score", cpu_s=cpu_s))
    finally:
        settle_run(run.lake, run.folder)


def _acquire_leases(run: Run, sessions: tuple[Session, ...]) -> None:
    """Lease the run's questions, so that concurrent runs wait for its replies instead of paying for their own.

    Questions to a cascade's second judge are leased when they are known, or other runs could wait in vain. Judges under
    a Prefect limit are left out: a run with a slot must not wait for a run that needs one. All others are leased in one
    transaction, so that two runs with common members do not wait for each other.
    """
    held = partial(held_judgments, run.lake)
    wanted = []
    for index, session in enumerate(sessions):
        is_later = isinstance(run.judge, CascadeSettings) and index != FIRST
        if isinstance(session, JudgingSession) and session.settings.concurrency_limit is None:
            keys = () if is_later else open_keys(run.folder, run.rubric, index, session.settings.packing)
            wanted.append((session.open_leases(held), list(keys)))
    if wanted:
        wanted[0][0].acquire_together(wanted)

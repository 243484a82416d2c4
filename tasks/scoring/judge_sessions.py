"""A run's conversation with its judge: opened before the first question, in the ledger after the last."""

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
from gradebook.tasks.workspace.timings import Timing, keep_timing


@contextmanager
def judging(run: Run, plan: RunPlan) -> Iterator[tuple[Session, ...]]:
    """A session with each of the run's judges while the block runs; none where it has no judge.

    Whatever was answered is in the ledger afterwards, come what may. Raises `EndpointUnavailable` where something is to
    be asked and the endpoint does not answer or refuses the key.
    """
    if run.judge is None:
        yield ()
        return
    probe_members(run.judge, plan.asked_judges)
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        deadline = run.request.deadline
        with open_sessions(run.judge, money, run.lake.journal_folder, run.run_id, deadline) as sessions:
            _acquire_leases(run, sessions)
            reporter().begin("judge", plan.open_count or None)  # a request may answer several
            try:
                yield sessions
            finally:  # the command that goes on does not know them
                run.folder.keep_notes([session.note for session in sessions if isinstance(session, JudgingSession)])
            reporter().end("judge")
            cpu_s = max(session.cpu_s for session in sessions)  # those that are asked share one thread
        # One thread asks for all criteria, so what it took is no single one's.
        keep_timing(run.folder, Timing("score", cpu_s=cpu_s))
    finally:
        settle_run(run.lake, run.run_id)


def _acquire_leases(run: Run, sessions: tuple[Session, ...]) -> None:
    """Say what is going to be asked, so that runs beside this one wait for its replies instead of paying for their own.

    What a cascade may ask later is claimed when it is known: who waits for it before could wait in vain. Judges under a
    limit of Prefect's are left out: who holds a place there must not wait for who needs it. All others claim in one go:
    of two runs at once, which share members, neither is to wait for the other.
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

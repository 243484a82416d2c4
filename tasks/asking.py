"""A run's conversation with its judge: opened before the first question, in the ledger after the last."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.judging.prices import find_price
from tasks.judging.probe import probe
from tasks.judging.session import open_session
from tasks.judging.settings import JudgeSettings
from tasks.ledger import settle_journals
from tasks.plan import RunPlan
from tasks.progress import reporter
from tasks.runs import Run
from tasks.scoring.judge import Session
from tasks.timings import Timing, keep_timing


@contextmanager
def judging(run: Run, plan: RunPlan) -> Iterator[Session | None]:
    """A session with the run's judge while the block runs; None where it has none.

    Whatever was answered is in the ledger afterwards, come what may. Raises `EndpointUnavailable` where something is to
    be asked and the endpoint does not answer or refuses the key.
    """
    if run.judge is None:
        yield None
        return
    online = run.judge if isinstance(run.judge, JudgeSettings) else None
    if online and plan.request_count:
        probe(online)
    try:
        session = open_session(
            run.judge,
            journal_folder=run.lake.journal_folder,
            run_id=run.run_id,
            budget_usd=run.request.budget_usd,
            budget_record=run.folder.path / "budget.jsonl",
            price=find_price(online) if online else None,
        )
        with session:
            reporter().begin("judge", plan.request_count or None)
            yield session
            reporter().end("judge")
        # One thread asks for all criteria, so what it took is no single one's.
        keep_timing(run.folder, Timing("score", cpu_s=session.cpu_s))
    finally:
        settle_journals(run.lake)

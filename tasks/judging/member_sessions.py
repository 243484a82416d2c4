"""The sessions of a run's judges, open together: one budget, one journal and one thread for all that are asked."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gradebook.tasks.judging.budget import Budget
from gradebook.tasks.judging.journal import Journal
from gradebook.tasks.judging.keys import read_keys
from gradebook.tasks.judging.panels import Judge, members_of, online_members, writer_of
from gradebook.tasks.judging.prices import find_price, refuse_unpriced
from gradebook.tasks.judging.probe import probe
from gradebook.tasks.judging.replay import ReplaySession
from gradebook.tasks.judging.session import JudgingSession, open_session
from gradebook.tasks.judging.settings import JudgeSettings, ReplaySettings
from gradebook.tasks.judging.threads import JudgingThread

Session = JudgingSession | ReplaySession


@dataclass(frozen=True, slots=True)
class Money:
    """A run's budget: its limit, the file that keeps it, and what the run may need in all."""

    budget_usd: float | None
    record: Path
    planned_usd: float | None


def probe_members(judge: Judge, asked_judges: tuple[int, ...]) -> None:
    """Look at the endpoint of each judge that something is left to ask of. Raises as `probe`."""
    for index, member in enumerate(members_of(judge)):
        if index in asked_judges and isinstance(member, JudgeSettings):
            probe(member, read_keys(member, os.environ))


@contextmanager
def opened_sessions(
    judge: Judge, money: Money, journal_folder: Path, run_id: str, deadline: datetime | None = None
) -> Iterator[tuple[Session, ...]]:
    """A session a member, in their order, while the block runs. Raises as `open_session`."""
    members = members_of(judge)
    with ExitStack() as stack:
        if len(members) == 1:
            alone = _open_alone(members[0], money, journal_folder, run_id, deadline)
            stack.enter_context(alone)
            yield (alone,)
            return
        prices = {member.judge_digest: find_price(member) for member in online_members(judge)}
        is_priced = bool(prices) and None not in prices.values()
        if money.budget_usd is not None:
            for online in online_members(judge):
                refuse_unpriced(online, prices[online.judge_digest])
        budget = Budget(money.budget_usd, money.record if is_priced else None, money.planned_usd)
        stack.callback(budget.close)
        journal = stack.enter_context(Journal(journal_folder, run_id))
        thread = JudgingThread()
        thread.start()
        stack.callback(thread.end)
        sessions: list[Session] = []
        for member in members:
            if isinstance(member, ReplaySettings):
                replay = ReplaySession(member, journal_folder, run_id)
                sessions.append(stack.enter_context(replay))
            else:
                price = prices[member.judge_digest]
                session = JudgingSession(member, price, budget, journal, run_id, thread, deadline)
                sessions.append(stack.enter_context(session))
        yield tuple(sessions)


def writer_session(judge: Judge, sessions: tuple[Session, ...]) -> Session:
    """The session that writes texts, see `writer_of`."""
    return sessions[members_of(judge).index(writer_of(judge))]


def _open_alone(
    member: JudgeSettings | ReplaySettings, money: Money, journal_folder: Path, run_id: str, deadline: datetime | None
) -> Session:
    if isinstance(member, ReplaySettings):
        return ReplaySession(member, journal_folder, run_id)
    return open_session(
        member,
        journal_folder=journal_folder,
        run_id=run_id,
        budget_usd=money.budget_usd,
        budget_record=money.record,
        price=find_price(member),
        planned_usd=money.planned_usd,
        deadline=deadline,
    )

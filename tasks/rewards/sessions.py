"""Open sessions of a judge that is asked about single outputs, over faults, forks and restarts."""

import asyncio
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.tasks.judging.session.loop_thread import JudgingThread
from gradebook.tasks.judging.session.session import JudgingSession, Money, Session, open_sessions, probe_members
from gradebook.tasks.judging.settings.panels import Judge, members_of, online_members
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import prepare_lake
from gradebook.tasks.ledger.known_keys import KnownKeys
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.workspace.folder import RUN_ID

NEWEST = 0.2  # weight of the last batch in the pace


class Pace:
    """Pace at which questions are answered, from the batches so far.

    slots: questions in flight at once, at most. A batch that waits behind others takes longer in proportion to the
    questions that are open; one that does not takes as long as any.
    """

    def __init__(self, slots: int) -> None:
        self._slots, self._lock = max(slots, 1), threading.Lock()
        self._open_count = 0
        self._question_s = 0.0  # seconds for each open question

    def renewed(self) -> "Pace":
        """Pace of a fork's child, which waits for nothing yet."""
        found = Pace(self._slots)
        found._question_s = self._question_s
        return found

    def begin(self, count: int) -> Callable[[bool], None]:
        """Note a batch of questions; returns what notes its end, and whether all were answered."""
        begun = time.monotonic()
        with self._lock:
            self._open_count += count
            ahead = max(self._open_count, self._slots)

        def end(is_answered: bool) -> None:
            with self._lock:
                self._open_count -= count
                if is_answered:
                    found = (time.monotonic() - begun) / ahead
                    self._question_s += (found - self._question_s) * (NEWEST if self._question_s else 1.0)

        return end

    def expected_s(self, count: int) -> float:
        """Seconds until further questions are answered; 0 if none is open, or nothing is known yet."""
        with self._lock:
            return self._question_s * max(self._open_count + count, self._slots) if self._open_count else 0.0


class _Leasing:
    """Leases of one session. Questions that come while others are leased are leased together after them."""

    def __init__(self, session: Session) -> None:
        self._session, self._lock = session, asyncio.Lock()
        self._wanted: set[str] = set()  # of all who wait for the lock
        self._leased: set[str] = set()

    async def lease(self, keys: set[str]) -> None:
        """Lease the keys of questions before they are asked."""
        self._wanted |= keys - self._leased
        async with self._lock:
            if not keys <= self._leased and isinstance(self._session, JudgingSession):
                wanted, self._wanted = self._wanted | (keys - self._leased), set()
                await asyncio.to_thread(self._session.lease_also, sorted(wanted))
                self._leased |= wanted


@dataclass(slots=True)
class OpenedSessions:
    """Open sessions of a judge's members, and the thread in which they ask."""

    sessions: tuple[Session, ...]
    thread: JudgingThread
    stack: ExitStack
    leasing: tuple[_Leasing, ...]  # by session

    def close(self) -> None:
        """Close the sessions and end the thread."""
        with suppress(UnfinishedError):
            self.stack.close()


class _Job:
    """Spend that counts over restarts, in a file that one process at a time holds."""

    def __init__(self, lake: Lake, name: str) -> None:
        """Raises `InputError` for a bad name."""
        if not RUN_ID.fullmatch(name):
            raise InputError("--job", repr(name), "letters, digits, - and _, at most 80")
        lake.journal_folder.mkdir(parents=True, exist_ok=True)
        self._name, self._record = name, lake.journal_folder / f"{name}.budget"
        self._lock: int | None = None
        self._pid = os.getpid()

    def held(self) -> Path:
        """File of the budget, held until `release`. Raises `InputError` if another process holds it."""
        if self._pid != os.getpid():  # the copy of a fork
            raise InputError("--job", f"{self._name}, whose budget the parent spends", "a scorer of the child's own")
        if self._lock is None:
            lock = os.open(self._record, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                found = f"{self._name}, whose budget another process spends"
                raise InputError("--job", found, "another name, or the end of that process") from None
            self._lock = lock
        return self._record

    def release(self) -> None:
        """Let others hold it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class JudgeSessions:
    """Sessions of a judge: opened with the first question, and again after a fault, a fork or `close`.

    They know nothing of who asks, so that they can be closed when it is gone. lake: its ledger gets the replies; None:
    replies live as long as this object. job: name under which the lake's folder has the spend; None: the spend of this
    object and process alone. Raises `InputError` if another process has the job.
    """

    def __init__(self, judge: Judge, budget_usd: float | None, lake: Lake | None, name: str, job: str | None) -> None:
        if lake is not None:
            prepare_lake(lake)
        self.lake, self._judge, self._budget_usd, self._name = lake, judge, budget_usd, name
        self._job: _Job | None = None
        if lake is not None and job is not None:
            self._job = _Job(lake, job)
            self._job.held()  # refused now rather than with the first question
        self._records = Path(tempfile.mkdtemp(prefix="gradebook-scorer-"))
        self._maker = os.getpid()
        self.pace = Pace(sum(each.max_in_flight for each in online_members(judge)))
        self._begin()
        _of_this_process.add(self)

    def _begin(self) -> None:
        """Begin in this process, without open sessions. run_id: id under which the ledger has the replies."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._opening: Future[OpenedSessions] | None = None
        self.run_id = f"{self._name}-{self._pid}-{secrets.token_hex(6)}"

    def renew(self) -> None:
        """Leave to the parent what a fork copied: its threads, sessions and files.

        Nothing of it may be collected here: the ends of its coroutines would write to the parent's journal and budget.
        The pace's lock may be held by a thread that the child does not have.
        """
        _of_parents.append(self._opening)
        self._begin()
        self.pace = self.pace.renewed()

    def opening(self) -> Future[OpenedSessions]:
        """Sessions that are open, or that a thread opens now."""
        with self._lock:
            opening = self._opening
            if opening is None or (opening.done() and opening.exception() is not None):
                opening = self._opening = Future()
                threading.Thread(target=self._open, args=(opening,), name="opening", daemon=True).start()
            return opening

    def _open(self, opening: Future[OpenedSessions]) -> None:
        stack = ExitStack()
        try:
            probe_members(self._judge, tuple(range(len(members_of(self._judge)))))
            own = self._records / f"budget-{self._pid}.jsonl"
            money = Money(self._budget_usd, own if self._job is None else self._job.held())
            folder = self._records if self.lake is None else self.lake.journal_folder
            sessions = stack.enter_context(open_sessions(self._judge, money, folder, self.run_id, None, True))
            if self.lake is not None:
                for session in sessions:
                    if isinstance(session, JudgingSession):
                        session.open_leases(KnownKeys(self.lake))
            thread = next((each.thread for each in sessions if isinstance(each, JudgingSession)), None)
            if thread is None:
                thread = JudgingThread()
                thread.start()
                stack.callback(thread.end)
        except BaseException as error:  # noqa: BLE001 - raised where the answers are awaited
            stack.close()
            opening.set_exception(error)
        else:
            opening.set_result(OpenedSessions(sessions, thread, stack, tuple(map(_Leasing, sessions))))

    def abandon(self, opening: Future[OpenedSessions]) -> None:
        """Close sessions that cannot continue; the next question opens new ones."""
        with self._lock:
            is_current = self._opening is opening
            if is_current:
                self._opening = None
        if is_current:
            threading.Thread(target=opening.result().close, name="closing", daemon=True).start()

    def close(self) -> None:
        """Close the sessions; replies go to the lake's ledger. In a fork's child, nothing is its own."""
        if self._pid != os.getpid():
            return
        with self._lock:
            opening, self._opening = self._opening, None
        if opening is not None and opening.exception() is None:
            opening.result().close()
        if self.lake is not None and opening is not None:
            settle_journals(self.lake)
        if self._job is not None:
            self._job.release()

    def end(self) -> None:
        """Close the sessions, and remove the files that only this object reads."""
        self.close()
        if self._maker == os.getpid():
            shutil.rmtree(self._records, ignore_errors=True)


_of_parents: list[object] = []  # what forks copied into this process
_of_this_process: "weakref.WeakSet[JudgeSessions]" = weakref.WeakSet()


def _renew_all() -> None:
    for sessions in list(_of_this_process):
        sessions.renew()


os.register_at_fork(after_in_child=_renew_all)

"""Open sessions of a judge that is asked about single outputs, over faults, forks and restarts."""

import asyncio
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.tasks.judging.session.session import (
    JudgingSession,
    JudgingThread,
    Money,
    Session,
    open_sessions,
    probe_members,
)
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, latest_version, prepare_lake
from gradebook.tasks.ledger.ledger import held_judgments, settle_journals
from gradebook.tasks.system.files import try_lock
from gradebook.tasks.workspace.folder import RUN_ID

NEWEST = 0.2  # weight of the latest batch in the moving average of the pace


class Pace:
    """Pace at which questions are answered, from the batches so far.

    slots: most questions in flight at once. A batch that waits behind others takes longer in proportion to the
    open questions; all others take the same time.
    """

    def __init__(self, slots: int) -> None:
        self._slots, self._lock = max(slots, 1), threading.Lock()
        self._open_count = 0
        self._question_s = 0.0  # seconds for each open question

    def renewed(self) -> "Pace":
        """Pace for a forked child, which has no open questions."""
        pace = Pace(self._slots)
        pace._question_s = self._question_s
        return pace

    def begin(self, count: int) -> Callable[[bool], None]:
        """Record a batch of questions; returns a function that records its end, given whether all were answered."""
        begun = time.monotonic()
        with self._lock:
            self._open_count += count
            ahead = max(self._open_count, self._slots)

        def end(is_answered: bool) -> None:
            with self._lock:
                self._open_count -= count
                if is_answered:
                    question_s = (time.monotonic() - begun) / ahead
                    self._question_s += (question_s - self._question_s) * (NEWEST if self._question_s else 1.0)

        return end

    def expected_s(self, count: int) -> float:
        """Seconds until further questions are answered; 0 if none is open, or nothing is known yet."""
        with self._lock:
            return self._question_s * max(self._open_count + count, self._slots) if self._open_count else 0.0


class _Leasing:
    """Leases of one session. Questions that arrive during a leasing transaction share the next one."""

    def __init__(self, session: Session) -> None:
        self._session, self._lock = session, asyncio.Lock()
        self._wanted: set[str] = set()  # keys of all callers that wait for the lock
        self._leased: set[str] = set()

    async def lease(self, keys: set[str]) -> None:
        """Lease the keys of questions before they are asked."""
        self._wanted |= keys - self._leased
        async with self._lock:
            if not keys <= self._leased and isinstance(self._session, JudgingSession):
                new_keys, self._wanted = self._wanted | (keys - self._leased), set()
                await asyncio.to_thread(self._session.lease_also, sorted(new_keys))
                self._leased |= new_keys


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
    """Spend that counts over restarts, in a file that one process at a time locks."""

    def __init__(self, lake: Lake, name: str) -> None:
        """Raises `InputError` for a bad name."""
        if not RUN_ID.fullmatch(name):
            raise InputError("--job", repr(name), "letters, digits, - and _, at most 80")
        lake.journal_folder.mkdir(parents=True, exist_ok=True)
        self._name, self._record = name, lake.journal_folder / f"{name}.budget"
        self._lock: int | None = None
        self._pid = os.getpid()

    def acquire(self) -> Path:
        """File of the budget, locked until `release`. Raises `InputError` if another process has locked it."""
        if self._pid != os.getpid():  # the copy of a fork
            raise InputError("--job", f"{self._name}, whose budget the parent spends", "a scorer of the child's own")
        if self._lock is None:
            self._lock = try_lock(self._record)
            if self._lock is None:
                problem = f"{self._name}, whose budget another process spends"
                raise InputError("--job", problem, "another name, or the end of that process")
        return self._record

    def release(self) -> None:
        """Unlock the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class JudgeSessions:
    """Sessions of a judge: opened with the first question, and again after a fault, a fork or `close`.

    They have no reference to the asking object, so that garbage collection of that object can close them. lake: its
    ledger gets the replies; None: replies live as long as this object. job: name under which the lake's folder records
    the spend; None: only the spend of this object in this process counts. Raises `InputError` if another process has
    the job.
    """

    def __init__(self, judge: Judge, budget_usd: float | None, lake: Lake | None, name: str, job: str | None) -> None:
        if lake is not None:
            prepare_lake(lake)
        self.lake, self._judge, self._budget_usd, self._name = lake, judge, budget_usd, name
        self._job: _Job | None = None
        if lake is not None and job is not None:
            self._job = _Job(lake, job)
            self._job.acquire()  # fail now rather than at the first question
        self._records = Path(tempfile.mkdtemp(prefix="gradebook-scorer-"))
        self._maker = os.getpid()
        self.pace = Pace(sum(settings.max_in_flight for settings in judge.online))
        self._begin()
        _of_this_process.add(self)

    def _begin(self) -> None:
        """Begin in this process, without open sessions. run_id: id under which the ledger has the replies."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._opening: Future[OpenedSessions] | None = None
        self.run_id = f"{self._name}-{self._pid}-{secrets.token_hex(6)}"

    def renew(self) -> None:
        """Begin anew in a forked child, and leave the copied threads, sessions and files to the parent.

        The copies may not be garbage collected: their coroutines would write to the parent's journal and budget.
        The pace's lock may be held by a thread that the child does not have.
        """
        _copied_by_forks.append(self._opening)
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
            probe_members(self._judge, tuple(range(len(self._judge.members))))
            budget_file = self._records / f"budget-{self._pid}.jsonl"
            money = Money(self._budget_usd, budget_file if self._job is None else self._job.acquire())
            folder = self._records if self.lake is None else self.lake.journal_folder
            sessions = stack.enter_context(open_sessions(self._judge, money, folder, self.run_id, None, True))
            if self.lake is not None:
                for session in sessions:
                    if isinstance(session, JudgingSession):
                        session.open_leases(KnownKeys(self.lake))
            thread = next((session.thread for session in sessions if isinstance(session, JudgingSession)), None)
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
        """Close the sessions; replies go to the lake's ledger. A fork's child closes nothing."""
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
        """Close the sessions, and remove the temporary files of this object."""
        self.close()
        if self._maker == os.getpid():
            shutil.rmtree(self._records, ignore_errors=True)


_copied_by_forks: list[object] = []  # the parent's objects that a fork copied into this process
_of_this_process: "weakref.WeakSet[JudgeSessions]" = weakref.WeakSet()


def _renew_all() -> None:
    for sessions in list(_of_this_process):
        sessions.renew()


os.register_at_fork(after_in_child=_renew_all)


_KEYS = """
select distinct try_cast('0x' || request_key[:16] as ubigint) as start
from judgments
where status = 'scored' and start is not null
"""


class KnownKeys:
    """Look-up of judgments by key, for one thread at a time; holds the first 8 bytes of each ledger key in memory.

    Keys are read again after every commit to the lake; a commit in between is not seen yet, as by any reader.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._version: int | None = None
        self._starts: NDArray[np.uint64] = np.empty(0, np.uint64)

    def __call__(self, keys: list[str]) -> dict[str, dict[str, Any]]:
        """Judgments by key, as `held_judgments`."""
        version = latest_version(self._lake)
        if version != self._version:
            with connect(self._lake, read_only=True) as connection:
                stored_starts = connection.execute(_KEYS).to_arrow_table().column("start").to_numpy()
            self._starts, self._version = np.sort(stored_starts), version
        starts = np.array([int(key[:16], 16) for key in keys], np.uint64)
        indices = np.searchsorted(self._starts, starts)
        is_known = self._starts.take(indices, mode="clip") == starts if len(self._starts) else np.zeros(len(keys), bool)
        known_keys = [key for key, is_there in zip(keys, is_known, strict=True) if is_there]
        return held_judgments(self._lake, known_keys) if known_keys else {}

"""Session with a judge: one thread with one event loop, shared by all callers in this process."""

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import length_hint
from pathlib import Path
from typing import Any, Self, TypeVar

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.judging.budget import Budget
from gradebook.tasks.judging.prices import Price, find_price, refuse_unpriced
from gradebook.tasks.judging.replies.batched_criteria import DecisionQuestions, SeveralQuestions
from gradebook.tasks.judging.replies.embedding_questions import EmbeddingQuestion
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import outcome_from_rows
from gradebook.tasks.judging.replies.question import Askable, Outcome
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession
from gradebook.tasks.judging.session.client import JudgeClient
from gradebook.tasks.judging.session.lease import Leases, LedgerLookup
from gradebook.tasks.judging.session.program_asking import ProgramAsker
from gradebook.tasks.judging.session.request_coalescing import SharedAnswers
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys, refuse_bad_keys
from gradebook.tasks.judging.transport.probe import probe, refuse_no_host

ASKED_AGAIN = ("parse_error", "no_answer")  # reasons that another request may not have

Ask = Callable[[Askable[Any]], Awaitable[Outcome]]
Outcomes = dict[int, Outcome]  # by the question's place


async def ask_together(request: DecisionQuestions, ask: Ask, leases: Leases | None) -> Outcome:
    """Outcome of a request, with that of each question in its parts.

    Questions that another session leased are not asked while it lives. Those without a readable answer are asked once
    more by themselves. A request over the service's ceilings is sent in two halves.
    """
    indices = range(len(request.questions))
    leased_elsewhere = [index for index in indices if leases and leases.is_foreign((request.part_keys[index],))]
    outcomes = await _ask(request, [index for index in indices if index not in leased_elsewhere], ask)
    remaining: list[int] = []
    for index in leased_elsewhere:
        rows = await leases.answered(request.part_keys[index]) if leases else None
        if rows is None:
            remaining.append(index)
        else:
            outcomes[index] = outcome_from_rows(*rows)
    outcomes |= await _ask(request, remaining, ask)
    useless = [request.part_keys[index] for index, outcome in outcomes.items() if outcome.status != "scored"]
    if leases and useless:
        leases.release(*useless)
    parts = tuple(outcomes[index] for index in indices)
    return replace(parts[0], parts=parts)


async def _ask(request: DecisionQuestions, indices: Sequence[int], ask: Ask) -> Outcomes:
    """Ask some of the questions; ask again, once, those without a readable answer."""
    if not indices:
        return {}
    outcomes = await _ask_in_parts(request, indices, ask)
    lost = [index for index, outcome in outcomes.items() if outcome.reason in ASKED_AGAIN]
    if lost:
        outcomes |= await _ask_in_parts(request, lost, ask)
    return outcomes


async def _ask_in_parts(request: DecisionQuestions, indices: Sequence[int], ask: Ask) -> Outcomes:
    outcome = await ask(request.only([request.questions[index] for index in indices]))
    if outcome.is_too_long and len(indices) > 1:
        middle = len(indices) // 2
        first = await _ask_in_parts(request, indices[:middle], ask)
        return first | await _ask_in_parts(request, indices[middle:], ask)
    return dict(zip(indices, outcome.parts or (outcome,) * len(indices), strict=True))


Returned = TypeVar("Returned")


class JudgingThread:
    """One thread with one event loop. Sessions of several judges share it, and with it the budget of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judging", daemon=True)
        self._cpu_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Returned]) -> Future[Returned]:
        """Start a coroutine in the thread; the calling thread may wait for the value."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the thread, up to its end."""
        if self._thread.is_alive():
            self._cpu_s = self.submit(_thread_cpu_s()).result()
        return self._cpu_s

    def end(self) -> None:
        """Stop the loop and join the thread."""
        self._cpu_s = self.cpu_s
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _thread_cpu_s() -> float:
    return time.thread_time()


Answered = TypeVar("Answered")


class JudgingSession:
    """Session with one judge for any number of threads, with at most max_in_flight requests in total."""

    def __init__(  # noqa: PLR0913  # two of them have defaults
        self,
        settings: JudgeSettings,
        price: Price | None,
        budget: Budget,
        journal: Journal,
        run_id: str,
        thread: JudgingThread,
        deadline: datetime | None = None,
        is_ever_read: bool = False,
    ) -> None:
        """budget, journal, thread: shared by the judges of a run; `open_sessions` opens and closes them.

        deadline: time after which no request is sent. is_ever_read: see `JudgeClient`.
        """
        self.settings = settings
        self.journal = journal
        self._leases: Leases | None = None
        self._deadline = deadline
        self._timer: asyncio.TimerHandle | None = None
        keys = read_keys(settings, os.environ)
        self._open_client = partial(JudgeClient, settings, keys, price, budget, journal, run_id, is_ever_read)
        self._thread = thread
        self._open_program = partial(ProgramAsker, settings, price, budget, journal, run_id)
        self._program: ProgramAsker | None = None  # of a judge with a `batch_command`
        self._client: JudgeClient | None = None
        self._answers: SharedAnswers | None = None

    def __enter__(self) -> Self:
        self._thread.submit(self._connect()).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._disconnect()).result()
        if self._leases is not None:
            self._leases.close()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the session's thread."""
        return self._thread.cpu_s

    @property
    def note(self) -> str | None:
        """Note for the report about the leases; None if there is none."""
        return None if self._leases is None else self._leases.note

    def doubt(self, *, is_maybe_cut: bool) -> str | None:
        """Sentence about token counts that can't be true, as of cut prompts or other; None without such counts."""
        return None if self._client is None else self._client.doubts.get(is_maybe_cut)

    def open_leases(self, look_up: LedgerLookup) -> Leases:
        """Leases of this session, so that sessions wait for each other's replies instead of paying twice.

        look_up: scored judgments of keys in the ledger. If leases cannot be stored, each session asks for itself.
        """
        self._leases = self._leases or Leases(self.journal.path.parent, self.journal, look_up)
        return self._leases

    def lease_also(self, keys: Iterable[str]) -> None:
        """Lease further questions before they are asked; does nothing unless `open_leases` was called."""
        if self._leases is not None:
            self._leases.acquire(keys, is_late=True)

    def ask(self, questions: Iterable[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        """Ask all questions and pass each answer to on_answer, in the order of arrival, from the session's thread.

        Questions are pulled in that thread too, as slots come free; both callbacks have to be quick. Equal questions
        are asked once per session and share the answer. Blocks until all are answered. Raises `BudgetReached` or
        `EndpointUnavailable` when the run cannot continue, after every sent request of this call has been answered and
        journaled.
        """
        self._thread.submit(self.ask_here(questions, on_answer)).result()

    async def ask_here(self, questions: Iterable[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        """Ask as `ask` does, but from a coroutine of the session's thread, see `thread`."""
        if self._program is not None:
            await self._ask_program(self._program, questions, on_answer)
            return
        faults: list[BaseException] = []
        call = _AskCall(_conversations(iter(questions)), on_answer, faults)
        slots = self.settings.max_in_flight
        most = min(slots, max(length_hint(questions, slots), 1))  # rewards are asked for one by one
        await asyncio.gather(*(self._work(call) for _ in range(most)))
        if faults:
            raise faults[0]

    async def _ask_program(
        self,
        program: ProgramAsker,
        questions: Iterable[Askable[Answered]],
        on_answer: Callable[[Answered], None],
    ) -> None:
        try:
            self._opened_client.check_stopped()
            await program.ask(questions, on_answer)
        except UnfinishedError as fault:
            self._stop(fault)  # the whole session cannot continue
            self._opened_client.check_stopped()  # the first fault is the one to raise

    @property
    def thread(self) -> JudgingThread:
        """Thread in which the session asks."""
        return self._thread

    async def _connect(self) -> None:
        self._client = self._open_client()
        self._program = None if self.settings.batch_command is None else self._open_program()
        self._answers = SharedAnswers(self._ask_or_take)
        if self._deadline is not None:
            left_s = (self._deadline - datetime.now(UTC)).total_seconds()
            fault = UnfinishedError(
                f"the deadline, {self._deadline:%Y-%m-%d %H:%M:%S %Z}, has come; finished judgments are stored, and "
                "the same command resumes"
            )
            if left_s <= 0:
                self._stop(fault)
            else:
                self._timer = asyncio.get_running_loop().call_later(left_s, self._stop, fault)

    async def _ask_or_take(self, question: Askable[Any]) -> Outcome:
        """Ask, or take the answer of the session that leased the question earlier."""
        leases = self._leases
        if isinstance(question, DecisionQuestions):
            return await ask_together(question, self._opened_client.answer, leases)
        if leases is None:
            return await self._opened_client.answer(question)
        keys: tuple[str, ...] = (question.request_key,)
        if isinstance(question, SeveralQuestions | EmbeddingQuestion):
            keys = question.part_keys
        if leases.is_foreign(keys) and (rows := await leases.answered(*keys)) is not None:
            return outcome_from_rows(*rows)
        outcome = await self._opened_client.answer(question)
        parts = outcome.parts or (outcome,) * len(keys)
        if useless := [key for key, part in zip(keys, parts, strict=True) if part.status != "scored"]:
            leases.release(*useless)
        return outcome

    def _stop(self, fault: UnfinishedError) -> None:
        if self._client is not None:
            self._client.stop(fault)
        if self._program is not None:
            self._program.stop()
        if self._leases is not None:
            self._leases.stop()

    async def _disconnect(self) -> None:
        """Stop remaining tasks, which exist only if the caller was interrupted."""
        if self._program is not None:
            self._program.close()
        self._stop(UnfinishedError("the judging was interrupted"))
        if self._timer is not None:
            self._timer.cancel()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self._answers is not None:
            self._answers.close()

    async def _work(self, call: "_AskCall") -> None:
        """Ask conversations one by one until none is left or a question of this call fails.

        A conversation's first question goes ahead, so that the endpoint caches the shared prefix for the others.
        """
        shared = self._opened_client.shared_prefixes
        while not call.faults:
            try:
                conversation = next(call.conversations, None)
            except Exception as error:  # noqa: BLE001 - the caller's own: raised in `ask_here` after the others
                call.faults.append(error)
                return
            if conversation is None:
                return
            first, *others = conversation
            if others:
                shared.add(first.prefix)
            await self._answer(call, first)
            if others and not call.faults:
                await asyncio.gather(*(self._answer(call, question) for question in others))
            shared.discard(first.prefix)

    async def _answer(self, call: "_AskCall", question: Askable[Any]) -> None:
        try:
            self._opened_client.check_stopped()
            call.on_answer(question.answer(await self._opened_answers.answer(question)))
        except UnfinishedError as fault:
            self._stop(fault)  # the whole session cannot continue
            call.faults.append(fault)
        except Exception as error:  # noqa: BLE001 - the caller's own: raised in `ask_here` after the others
            call.faults.append(error)

    @property
    def _opened_client(self) -> JudgeClient:
        if self._client is None:
            raise RuntimeError("the session is not open")
        return self._client

    @property
    def _opened_answers(self) -> SharedAnswers:
        if self._answers is None:
            raise RuntimeError("the session is not open")
        return self._answers


@dataclass(frozen=True, slots=True)
class _AskCall:
    """State of one call of `ask`: remaining conversations, the callback and the faults."""

    conversations: Iterator[Sequence[Askable[Any]]]
    on_answer: Callable[[Any], None]
    faults: list[BaseException]


def _conversations(questions: Iterator[Askable[Any]]) -> Iterator[Sequence[Askable[Any]]]:
    """Group consecutive questions that share a prefix, lazily."""
    for _, conversation in groupby(questions, key=lambda question: question.prefix):
        yield tuple(conversation)


Session = JudgingSession | ReplaySession


@dataclass(frozen=True, slots=True)
class Money:
    """Budget of a run. budget_usd: maximum spend in US dollars.

    record: file of reservations and settlements. planned_usd: estimate of the whole run, for messages.
    """

    budget_usd: float | None = None
    record: Path | None = None
    planned_usd: float | None = None


PROBED_FOR_S = 60.0  # from a command's start to the run that it starts
# Times of probes by a command's start, by addresses and keys: its run, in this process, asks them no second time.
_probed: dict[tuple[str, ...], float] = {}


def probe_members(judge: Judge, asked_judges: tuple[int, ...], *, is_start: bool = False) -> None:
    """Probe the endpoint of each judge with open questions; a program has none. Raises as `probe`.

    is_start: before the run, whose own probe then passes once, if it comes within `PROBED_FOR_S`.
    """
    for index, member in enumerate(judge.members):
        model = member.as_model
        if index in asked_judges and model is not None and model.batch_command is None:
            keys = read_keys(model, os.environ)
            probed = (*(address.base_url for address in model.addresses), *keys)
            probed_at = _probed.pop(probed, -math.inf)
            if is_start or time.monotonic() - probed_at > PROBED_FOR_S:
                probe(model, keys)
            if is_start:
                _probed[probed] = time.monotonic()


def refuse_bad_addresses(judge: Judge | None, asked_judges: tuple[int, ...]) -> None:
    """Raise as `probe_members` if an address has no host name or a key is malformed; no request is sent."""
    for index, member in enumerate(judge.members if judge else ()):
        model = member.as_model
        if index in asked_judges and model is not None:
            refuse_bad_keys(model, os.environ)
            refuse_no_host(model.addresses[0])  # the others are asked only where it does not answer


@contextmanager
def open_sessions(
    judge: Judge,
    money: Money,
    journal_folder: Path,
    run_id: str,
    deadline: datetime | None = None,
    is_ever_read: bool = False,
) -> Iterator[tuple[Session, ...]]:
    """Sessions of a judge's members, in order, while the block runs. Raises as `open_session`.

    is_ever_read: whether earlier replies of the judge are in use, so that a few unreadable ones don't end the run.
    """
    prices = [(member, find_price(member)) for member in judge.online]
    with ExitStack() as stack:
        opened = _open_online(prices, money, journal_folder, run_id, deadline, is_ever_read)
        online = iter(stack.enter_context(opened) if prices else ())
        yield tuple(
            next(online) if recording is None else stack.enter_context(ReplaySession(recording, journal_folder, run_id))
            for recording in (member.as_recording for member in judge.members)
        )


@contextmanager
def open_session(
    settings: JudgeSettings,
    *,
    journal_folder: Path,
    run_id: str,
    money: Money | None = None,
    price: Price | None = None,
    deadline: datetime | None = None,
) -> Iterator[JudgingSession]:
    """Session of one judge while the block runs.

    A budget covers all sessions with the same record; its message names `planned_usd`. Raises `JudgeSettingsError` for
    a budget without a price, and `EndpointUnavailable` if a key cannot be read.
    """
    with _open_online([(settings, price)], money or Money(), journal_folder, run_id, deadline) as (session,):
        yield session


@contextmanager
def _open_online(
    prices: Sequence[tuple[JudgeSettings, Price | None]],
    money: Money,
    journal_folder: Path,
    run_id: str,
    deadline: datetime | None,
    is_ever_read: bool = False,
) -> Iterator[tuple[JudgingSession, ...]]:
    """Sessions that share one budget, one journal and one thread."""
    if money.budget_usd is not None:
        for settings, price in prices:
            refuse_unpriced(settings, price)
    is_priced = all(price is not None for _, price in prices)
    with ExitStack() as stack:
        # The record is written without a limit too: a later command may set one.
        budget = Budget(money.budget_usd, money.record if is_priced else None, money.planned_usd)
        stack.callback(budget.close)
        journal = stack.enter_context(Journal(journal_folder, run_id))
        thread = JudgingThread()
        thread.start()
        stack.callback(thread.end)
        shared = (budget, journal, run_id, thread, deadline, is_ever_read)
        yield tuple(stack.enter_context(JudgingSession(settings, price, *shared)) for settings, price in prices)


def writer_session(judge: Judge, sessions: tuple[Session, ...]) -> Session:
    """Session that writes texts, see `Judge.writer`."""
    return sessions[judge.writer_index]

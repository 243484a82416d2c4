"""A session with a judge: one thread with one event loop, shared by all who ask in this process."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rubrics.errors import JudgeSettingsError, UnfinishedError
from tasks.judging.budget import Budget
from tasks.judging.client import JudgeClient
from tasks.judging.journal import Journal
from tasks.judging.prices import Price
from tasks.judging.questions import Askable
from tasks.judging.replay import ReplaySession
from tasks.judging.settings import JudgeSettings, ReplaySettings
from tasks.judging.sharing import SharedAnswers

Returned = TypeVar("Returned")
Answered = TypeVar("Answered")


class JudgingSession:
    """Asks a judge for as many threads as like, with at most max_in_flight requests out in all."""

    def __init__(
        self, settings: JudgeSettings, price: Price | None, budget: Budget, journal: Journal, run_id: str
    ) -> None:
        self.settings = settings
        self.journal = journal
        self._budget = budget
        self._open_client = partial(JudgeClient, settings, price, budget, journal, run_id)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judging", daemon=True)
        self._client: JudgeClient | None = None
        self._answers: SharedAnswers | None = None
        self._cpu_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._connect())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._disconnect())
        self._end()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the session's thread."""
        if not self._thread.is_alive():
            return self._cpu_s
        return self._run(_thread_cpu_s())

    def ask(self, questions: Iterable[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        """Ask all questions and hand each answer over, in the order of their coming, from the session's thread.

        Questions are pulled in that thread too, as slots come free; both ends have to be quick. Equal questions are
        asked once a session, and all get the one answer. Blocks until all are answered. Raises `BudgetReached` or
        `EndpointUnavailable` when the run can't go on, once every request of this call that was out is back and
        journaled.
        """
        self._run(self._ask(iter(questions), on_answer))

    def _run(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _connect(self) -> None:
        self._client = self._open_client()
        self._answers = SharedAnswers(self._client.answer)

    async def _disconnect(self) -> None:
        """Stop whatever still runs: only an interrupted caller leaves something behind."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        self._cpu_s = time.thread_time()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.journal.close()
        self._budget.close()

    async def _ask(self, questions: Iterator[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        faults: list[BaseException] = []
        await asyncio.gather(*(self._work(questions, on_answer, faults) for _ in range(self.settings.max_in_flight)))
        if faults:
            raise faults[0]

    async def _work(
        self,
        questions: Iterator[Askable[Answered]],
        on_answer: Callable[[Answered], None],
        faults: list[BaseException],
    ) -> None:
        """Answer one question after the other until there is none left, or one of this call failed."""
        if self._client is None or self._answers is None:
            raise RuntimeError("the session is not open")
        while not faults:
            try:
                self._client.check_stopped()
                question = next(questions, None)
                if question is None:
                    return
                on_answer(question.answer(await self._answers.answer(question)))
            except UnfinishedError as fault:
                self._client.stop(fault)  # what can't go on for one can't for any
                faults.append(fault)
            except Exception as error:  # noqa: BLE001 - the caller's own: raised in `_ask` once the others are done
                faults.append(error)


async def _thread_cpu_s() -> float:
    return time.thread_time()


def open_session(
    settings: JudgeSettings | ReplaySettings,
    *,
    journal_folder: Path,
    run_id: str,
    budget_usd: float | None = None,
    budget_record: Path | None = None,
    price: Price | None = None,
) -> JudgingSession | ReplaySession:
    """Open a judge for a run: a context manager with `ask`.

    A budget holds over all sessions with the same budget_record.
    Raises `JudgeSettingsError` for a budget without a price, which nobody could hold to, or broken recorded replies.
    """
    if isinstance(settings, ReplaySettings):
        return ReplaySession(settings, journal_folder, run_id)
    if budget_usd is not None and price is None:
        raise JudgeSettingsError(
            f"{settings.model}: found no price, expected one to hold a budget of {budget_usd:g} USD; "
            "set `prices` (input_usd, output_usd a million tokens) in a judge file"
        )
    budget = Budget(budget_usd, None if price is None else budget_record)  # also without a limit: one may come later
    return JudgingSession(settings, price, budget, Journal(journal_folder, run_id), run_id)

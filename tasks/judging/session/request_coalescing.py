"""Request coalescing: a session asks equal questions once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from gradebook.tasks.judging.replies.outcome_cache import OutcomeCache
from gradebook.tasks.judging.replies.question import Askable, Outcome


class SharedAnswers:
    """Outcomes of a session by request key, without the questions. Used from one event loop."""

    def __init__(self, ask: Callable[[Askable[Any]], Awaitable[Outcome]]) -> None:
        self._ask = ask
        self._known = OutcomeCache()
        self._in_progress: dict[str, asyncio.Future[Outcome]] = {}

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask, or wait for an equal question in progress.

        A waiter pays nothing and gets the same fault if one is raised. An asker never waits for a waiter, so their
        number does not matter.
        """
        key = question.request_key
        pending = self._in_progress.get(key)
        known = self._known.find(key) if pending is None else await asyncio.shield(pending)
        return await self._ask_first(question) if known is None else unpaid(known)

    def close(self) -> None:
        self._known.close()

    async def _ask_first(self, question: Askable[Any]) -> Outcome:
        key = question.request_key
        pending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._in_progress[key] = pending
        try:
            outcome = await self._ask(question)
        except BaseException as error:
            _fail(pending, error)
            raise
        else:
            self._known.store(key, outcome)
            pending.set_result(outcome)
            return outcome
        finally:
            del self._in_progress[key]


def unpaid(known: Outcome) -> Outcome:
    """Outcome for an equal question, which cost nothing more."""
    if known.paid_by is not None:  # its cost is another run's
        return known
    parts = known.parts and tuple(replace(part, cost_usd=0.0, request_count=0) for part in known.parts)
    return replace(known, cost_usd=0.0, request_count=0, parts=parts)


def _fail(pending: asyncio.Future[Outcome], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        pending.cancel()
        return
    pending.set_exception(error)
    pending.exception()  # mark as retrieved, even without waiters

"""Equal questions are asked once a session."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from gradebook.tasks.judging.replies.outcome_cache import OutcomeCache
from gradebook.tasks.judging.replies.question import Askable, Outcome


class SharedAnswers:
    """The outcomes of a session by request key; the questions are not kept. Used from one event loop."""

    def __init__(self, ask: Callable[[Askable[Any]], Awaitable[Outcome]]) -> None:
        self._ask = ask
        self._known = OutcomeCache()
        self._coming: dict[str, asyncio.Future[Outcome]] = {}

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask, or wait for whoever asks the same; who waits pays nothing, and gets the same fault where one is raised.

        Who asks waits for nobody who waits here, so it does not matter how many do.
        """
        key = question.request_key
        coming = self._coming.get(key)
        known = self._known.find(key) if coming is None else await asyncio.shield(coming)
        return await self._ask_first(question) if known is None else _unpaid(known)

    def close(self) -> None:
        """Delete the outcomes."""
        self._known.close()

    async def _ask_first(self, question: Askable[Any]) -> Outcome:
        key = question.request_key
        coming: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._coming[key] = coming
        try:
            outcome = await self._ask(question)
        except BaseException as error:
            _fail(coming, error)
            raise
        else:
            self._known.store(key, outcome)
            coming.set_result(outcome)
            return outcome
        finally:
            del self._coming[key]


def _unpaid(known: Outcome) -> Outcome:
    parts = known.parts and tuple(replace(part, cost_usd=0.0, request_count=0) for part in known.parts)
    return replace(known, cost_usd=0.0, request_count=0, parts=parts)


def _fail(coming: asyncio.Future[Outcome], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        coming.cancel()
        return
    coming.set_exception(error)
    coming.exception()  # seen, even if nobody waits

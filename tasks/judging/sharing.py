"""Equal questions are asked once a session."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from tasks.judging.questions import Askable, Outcome


class SharedAnswers:
    """The outcomes of a session by request key; the questions are not kept. Used from one event loop."""

    def __init__(self, ask: Callable[[Askable[Any]], Awaitable[Outcome]]) -> None:
        self._ask = ask
        self._outcomes: dict[str, Outcome | asyncio.Future[Outcome]] = {}

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask, or wait for whoever asks the same; who waits pays nothing, and gets the same fault where one is raised.

        Who asks waits for nobody who waits here, so it does not matter how many do.
        """
        known = self._outcomes.get(question.request_key)
        if known is None:
            return await self._ask_first(question)
        outcome = await asyncio.shield(known) if isinstance(known, asyncio.Future) else known
        return replace(outcome, cost_usd=0.0, request_count=0)

    async def _ask_first(self, question: Askable[Any]) -> Outcome:
        key = question.request_key
        coming: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = coming
        try:
            outcome = await self._ask(question)
        except BaseException as error:
            del self._outcomes[key]
            _fail(coming, error)
            raise
        self._outcomes[key] = outcome
        coming.set_result(outcome)
        return outcome


def _fail(coming: asyncio.Future[Outcome], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        coming.cancel()
        return
    coming.set_exception(error)
    coming.exception()  # seen, even if nobody waits

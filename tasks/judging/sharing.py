"""Equal questions are asked once a session."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from tasks.judging.questions import Answer, Question


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is kept of an answer; the case is not, as every key of the session stays."""

    status: Literal["scored", "unscored"]
    level_id: str | None
    evidence: str | None
    rationale: str | None
    reason: str | None
    judgment_id: str | None


class SharedAnswers:
    """The answers of a session by request key. Used from one event loop."""

    def __init__(self, ask: Callable[[Question], Awaitable[Answer]]) -> None:
        self._ask = ask
        self._outcomes: dict[str, _Outcome | asyncio.Future[_Outcome]] = {}

    async def answer(self, question: Question) -> Answer:
        """Ask, or wait for whoever asks the same; who waits pays nothing, and gets the same fault where one is raised.

        Who asks waits for nobody who waits here, so it does not matter how many do.
        """
        known = self._outcomes.get(question.request_key)
        if known is None:
            return await self._ask_first(question)
        outcome = await asyncio.shield(known) if isinstance(known, asyncio.Future) else known
        return _answer_again(question, outcome)

    async def _ask_first(self, question: Question) -> Answer:
        key = question.request_key
        coming: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = coming
        try:
            answer = await self._ask(question)
        except BaseException as error:
            del self._outcomes[key]
            _fail(coming, error)
            raise
        outcome = _outcome_of(answer)
        self._outcomes[key] = outcome
        coming.set_result(outcome)
        return answer


def _fail(coming: asyncio.Future[_Outcome], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        coming.cancel()
        return
    coming.set_exception(error)
    coming.exception()  # seen, even if nobody waits


def _outcome_of(answer: Answer) -> _Outcome:
    return _Outcome(
        answer.status, answer.level_id, answer.evidence, answer.rationale, answer.reason, answer.judgment_id
    )


def _answer_again(question: Question, outcome: _Outcome) -> Answer:
    return Answer(
        question,
        outcome.status,
        outcome.level_id,
        outcome.evidence,
        outcome.rationale,
        outcome.reason,
        outcome.judgment_id,
        cost_usd=0.0,
        request_count=0,
    )

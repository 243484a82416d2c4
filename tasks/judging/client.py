"""One question to one judge: the only place that asks again, sets money aside and writes the journal."""

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from rubrics.errors import EndpointUnavailable, UnfinishedError
from rubrics.judging.replies import ReadReply
from tasks.judging.budget import Budget
from tasks.judging.endpoint import Endpoint, Failure, Reply, token_limit_name
from tasks.judging.journal import Journal
from tasks.judging.prices import Price, Usage, cost_usd, most_tokens, worst_cost_usd
from tasks.judging.questions import Askable, Outcome, Request
from tasks.judging.retries import RATE_LIMIT_PATIENCE_S, wait_s
from tasks.judging.settings import JudgeSettings

MOST_CALLS_LOST_IN_A_ROW = 5
SECOND_CHANCES = (frozenset({"truncated"}), frozenset({"parse_error", "evidence_unverified"}))  # one each


@dataclass(slots=True)
class _Call:
    """One question on its way."""

    question: Askable[Any]
    request: Request
    body: dict[str, Any]
    prompt_tokens_most: int
    max_tokens: int
    judgments: list[dict[str, Any]] = field(default_factory=list)
    attempts: int = 0  # for the reply that is waited for
    request_count: int = 0
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class JudgeClient:
    """Asks one judge; lives in one event loop, with the endpoint, budget and journal of its session."""

    def __init__(
        self, settings: JudgeSettings, price: Price | None, budget: Budget, journal: Journal, run_id: str
    ) -> None:
        self._settings = settings
        self._price = price
        self._budget = budget
        self._journal = journal
        self._run_id = run_id
        self._endpoint = Endpoint(settings)
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._stopped = asyncio.Event()
        self._rng = np.random.default_rng()
        self._limit_name = token_limit_name(settings.base_url)
        self._lost_in_a_row = 0
        self._refused_count = 0
        self._is_ever_answered = False
        self.fault: UnfinishedError | None = None

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    def stop(self, fault: UnfinishedError) -> None:
        """Let no further request out; the first fault stays."""
        self.fault = self.fault or fault
        self._stopped.set()

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask until there is a usable reply or no hope of one; every reply is in the journal by then.

        Raises `UnfinishedError` where the run can't go on.
        """
        call = self._prepare(question)
        chances = list(SECOND_CHANCES)
        read = await self._ask(call)
        while isinstance(read, ReadReply) and (chance := _chance(chances, read)):
            chances.remove(chance)
            call.max_tokens *= 2 if read.status == "truncated" else 1
            again = await self._ask(call)
            if isinstance(again, Failure):
                break
            read = again
        return self._conclude(call, read)

    def _prepare(self, question: Askable[Any]) -> _Call:
        request = question.request()
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": request.messages,
            "response_format": {"type": "json_schema", "json_schema": request.schema},
        }
        if self._settings.temperature is not None:
            body["temperature"] = self._settings.temperature
        if self._settings.seed is not None:
            body["seed"] = self._settings.seed + question.replicate
        max_tokens = request.max_tokens or self._settings.max_tokens
        return _Call(question, request, body, most_tokens(request.messages, request.schema), max_tokens)

    async def _ask(self, call: _Call) -> ReadReply | Failure:
        """One reply, read and journaled, or the failure after which hope was given up."""
        patience_ends = time.monotonic() + RATE_LIMIT_PATIENCE_S
        call.attempts = failure_count = held_off_count = 0
        while True:
            came = await self._send(call)
            if isinstance(came, ReadReply):
                return came
            held_off_count += came.is_rate_limit
            failure_count += not came.is_rate_limit
            is_out_of_time = time.monotonic() >= patience_ends
            if not came.is_retried or is_out_of_time or failure_count >= self._settings.max_attempts:
                return self._give_up(came)
            await self._pause(wait_s(failure_count + held_off_count - 1, came.retry_after_s, self._rng))

    async def _send(self, call: _Call) -> ReadReply | Failure:
        """One request, with a slot and its worst cost set aside; a reply is in the journal when it is settled."""
        async with self._slots:
            self.check_stopped()
            ticket = await self._budget.reserve(worst_cost_usd(self._price, call.prompt_tokens_most, call.max_tokens))
            paid_usd: float | None = 0.0
            try:
                self.check_stopped()
                paid_usd = None  # while it is out; whoever is interrupted here may be billed
                came = await self._request(call)
                if isinstance(came, Failure):
                    paid_usd = None if came.may_be_billed else 0.0
                    return came
                paid_usd = None if came.usage is None else cost_usd(self._price, came.usage)
                return self._record(call, came, paid_usd)
            except EndpointUnavailable:  # the endpoint refused it
                paid_usd = 0.0
                raise
            finally:
                self._budget.settle(ticket, paid_usd)

    async def _request(self, call: _Call) -> Reply | Failure:
        call.attempts += 1
        call.request_count += 1
        call.asked_at = datetime.now(UTC)
        return await self._endpoint.send(call.body | {self._limit_name: call.max_tokens})

    def _record(self, call: _Call, reply: Reply, paid_usd: float | None) -> ReadReply:
        """Read a reply and write it to the journal, whatever it is worth."""
        read = call.request.read(reply.text, reply.finish_reason, reply.refusal)
        usage = reply.usage or Usage()
        judgment = judgment_row(self._run_id, call.question, self._settings.judge, read) | {
            "reply": (reply.refusal or reply.text or "").encode("utf-8", "replace").decode(),
            "model_returned": reply.model_returned,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost_usd": paid_usd,
            "latency_ms": reply.latency_ms,
            "attempts": call.attempts,
            "asked_at": call.asked_at,
        }
        self._journal.append(judgment)
        call.judgments.append(judgment)
        self._is_ever_answered = True
        self._lost_in_a_row = 0
        return read

    def _give_up(self, failure: Failure) -> Failure:
        """Count a call that got no reply; raises when this looks like the end of the endpoint, not of the call."""
        self._lost_in_a_row += failure.is_retried
        self._refused_count += not failure.is_retried
        is_refusing_all = not self._is_ever_answered and self._refused_count >= MOST_CALLS_LOST_IN_A_ROW
        if self._lost_in_a_row >= MOST_CALLS_LOST_IN_A_ROW or is_refusing_all:
            raise EndpointUnavailable(
                f"{self._settings.base_url}: {MOST_CALLS_LOST_IN_A_ROW} requests in a row came to nothing, "
                f"the last with: {failure.reason}"
            )
        return failure

    async def _pause(self, pause_s: float) -> None:
        """Wait without a slot, but no longer than the session lasts."""
        try:
            async with asyncio.timeout(pause_s):
                await self._stopped.wait()
        except TimeoutError:
            return
        self.check_stopped()

    def check_stopped(self) -> None:
        """Raise the fault that ended the session, if one did."""
        if self.fault is not None:
            raise self.fault

    def _conclude(self, call: _Call, read: ReadReply | Failure) -> Outcome:
        costs = [judgment["cost_usd"] for judgment in call.judgments]
        is_priced = bool(costs) and None not in costs
        paid: dict[str, Any] = {
            "judgment_id": call.judgments[-1]["judgment_id"] if call.judgments else None,
            "cost_usd": sum(costs) if is_priced else None,
            "request_count": call.request_count,
        }
        if isinstance(read, Failure):
            return Outcome("unscored", reason=f"endpoint_error: {read.reason}", **paid)
        return outcome_of(read, **paid)


def _chance(chances: list[frozenset[str]], read: ReadReply) -> frozenset[str] | None:
    """The second chance that a useless reply still has."""
    return next((chance for chance in chances if read.status in chance), None)


def judgment_row(run_id: str, question: Askable[Any], judge: str, read: ReadReply) -> dict[str, Any]:
    """The columns of JUDGMENT_SCHEMA that a reply's reading gives; those of the request are still to come."""
    return {
        "judgment_id": uuid.uuid4().hex,
        "run_id": run_id,
        "request_key": question.request_key,
        "output_id": question.output_id,
        "criterion_id": question.criterion_id,
        "judge": judge,
        "replicate": question.replicate,
        "status": read.status,
        "level_id": read.level_id if read.status == "scored" else None,
        "distribution": None,
        "rationale": read.rationale,
        "evidence": evidence_text(read),
        "prompt_digest": question.prompt_digest,
    }


def evidence_text(read: ReadReply) -> str | None:
    """The quotes as a JSON list, None where there is none."""
    return orjson.dumps(read.evidence).decode() if read.evidence else None


def outcome_of(read: ReadReply, **paid: Any) -> Outcome:
    """Turn a reading into an outcome: scored, or unscored for the reply's status."""
    if read.status == "scored":
        return Outcome("scored", read.level_id, evidence_text(read), read.rationale, None, **paid)
    return Outcome("unscored", None, evidence_text(read), read.rationale, read.status, **paid)

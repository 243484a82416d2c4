"""Client of one judge: the only place that retries requests, reserves their cost and writes the journal.

Requests, retries, rate limits and circuit changes are logged and traced, without any prompt text.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gradebook.rubrics.model.errors import EndpointUnavailable, UnfinishedError
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.budget import Budget
from gradebook.tasks.judging.prices import (
    BYTES_PER_TOKEN,
    Price,
    cost_usd,
    least_prompt_tokens,
    most_tokens,
    prompt_bytes,
    worst_cost_usd,
)
from gradebook.tasks.judging.replies.batched_criteria import TOO_LONG, RequestTooLong
from gradebook.tasks.judging.replies.completion import (
    UNREADABLE,
    Reply,
    describe_unreadable,
    drop_false_usage,
    false_count_sentence,
)
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import (
    judgment_row,
    outcome_of,
    read_parts,
    reply_columns,
    shared_columns,
)
from gradebook.tasks.judging.replies.question import Askable, Outcome, Request
from gradebook.tasks.judging.settings.judge import MOST_REASONED_TOKENS, JudgeSettings
from gradebook.tasks.judging.settings.learned import refused_setting
from gradebook.tasks.judging.transport.connection import Failure, Route, routes_of
from gradebook.tasks.judging.transport.endpoint import request_body
from gradebook.tasks.judging.transport.limits import CircuitBreaker
from gradebook.tasks.judging.transport.retry_policy import RATE_LIMIT_PATIENCE_S, wait_s
from gradebook.tasks.system.events import FinishedRequest, count_request, log_event, tracing
from gradebook.tasks.system.logs import LOGGER
from gradebook.tasks.system.progress import reporter

MOST_CALLS_REFUSED = 5  # before any reply came
MOST_CALLS_UNREADABLE = 5  # before any reply could be read
MOST_CALLS_OUTLASTED = 3  # in a row; a single one may be caused by its own request
FIRST_QUIET_S = 20.0  # without any reply until it is reported
USUAL_COMPLETION_TOKENS = 256
FILTERED = "filtered"  # the status of a reply stopped by the endpoint's filter
CUT_OFF = frozenset({"truncated"})  # retried with twice the tokens
# Retried with an explanation of the error, where there is one.
REPAIRED = frozenset({"parse_error", "evidence_unverified", "no_answer"})


@dataclass(slots=True)
class _Call:
    """Question that is being asked, with its replies so far."""

    question: Askable[Any]
    request: Request
    parts: tuple[Askable[Any], ...]  # one judgment each: the question itself, or its batched criteria
    messages: list[dict[str, Any]]
    max_tokens: int
    judgments: list[dict[str, Any]] = field(default_factory=list)
    reads: dict[int, ReadReply] = field(default_factory=dict)  # by part: the first scored reading, else the last
    attempts: int = 0  # for the current reply
    request_count: int = 0
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    prompt_bytes: int = 0  # of the messages and the schema
    least_tokens: int = 0  # lower bound of the prompt's tokens
    has_reasoned: bool = False  # as a reply shows
    most_tokens: int = 0  # upper bound of the prompt's price, in tokens


class JudgeClient:
    """Client of one judge, in one event loop; budget and journal are shared with its session."""

    def __init__(
        self,
        settings: JudgeSettings,
        keys: Sequence[str],
        price: Price | None,
        budget: Budget,
        journal: Journal,
        run_id: str,
        is_ever_read: bool = False,
    ) -> None:
        """is_ever_read: whether a reply of this judge was read before, by an earlier command."""
        self._settings = settings
        self._budget = budget
        self._journal = journal
        self._run_id = run_id
        self._routes = deque(routes_of(settings, keys, price))
        self._abandoned: list[Route] = []
        self._stopped = asyncio.Event()
        self._rng = np.random.default_rng()
        self._refused_count = self._outlasted_count = 0
        self._is_ever_answered = False
        self._is_ever_read = is_ever_read
        self._unreadable: list[str] = []  # descriptions, one per call, until a reply is read
        self._heard_at = time.monotonic()
        self._quiet_s = FIRST_QUIET_S  # until the next word about a silent endpoint
        self._watch = asyncio.get_running_loop().call_later(FIRST_QUIET_S, self._report_silence)
        self.fault: UnfinishedError | None = None
        self.shared_prefixes: set[str] = set()  # of questions that are asked about the same case now
        self.doubts: dict[bool, str] = {}  # of the first token counts that can't be true, by whether prompts may be cut

    async def close(self) -> None:
        self._watch.cancel()
        for route in (*self._abandoned, *self._routes):
            await route.connection.close()

    def _report_silence(self) -> None:
        """Report silence of the endpoint, each time after twice as long."""
        silent_s, in_flight = time.monotonic() - self._heard_at, self._routes[0].limiter.in_flight
        if silent_s >= self._quiet_s and in_flight:
            self._quiet_s *= 2
            replies = counted(in_flight, "reply", "replies")
            reporter().wait(f"waiting for {replies} of {self._address}; none came for {silent_s:.0f} s")
        self._watch = asyncio.get_running_loop().call_later(FIRST_QUIET_S, self._report_silence)

    def stop(self, fault: UnfinishedError) -> None:
        """Send no further request; the first fault is the one that is raised."""
        self.fault = self.fault or fault
        self._stopped.set()
        for route in self._routes:
            route.stop()

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask until a usable reply comes or every attempt is used; every reply is journaled before the return.

        Raises `UnfinishedError` when the run cannot continue.
        """
        try:
            request = question.request()
        except UnreadableMedia as fault:  # nothing was sent
            return Outcome("unscored", reason=str(fault), is_too_long=isinstance(fault, RequestTooLong))
        limits = (part or self._settings.max_tokens for part in request.part_tokens or (request.max_tokens,))
        max_tokens = 0 if request.is_embedding else self._settings.token_limit(sum(limits))
        call = _Call(question, request, request.parts or (question,), request.messages, max_tokens)
        is_asked_again = bool(request.questions and request.parts)  # by the session, each by itself
        retries = [] if is_asked_again else [CUT_OFF, REPAIRED]
        read = await self._ask(call)
        while isinstance(read, ReadReply) and (retry := _retry_left(retries, read)):
            retries.remove(retry)
            if retry is CUT_OFF:
                call.max_tokens = self._larger_limit(call)
            elif request.repair is not None:
                call.messages = request.repair(call.judgments[-1]["reply"], read)
            again = await self._ask(call)
            if isinstance(again, Failure):
                break
            read = again
        self._count_unreadable(call)
        return self._conclude(call, read)

    def _larger_limit(self, call: _Call) -> int:
        """Token limit for a reply that was cut off: twice as many, and enough for long reasoning if there is any."""
        has_reasoned = self._settings.is_reasoning or call.has_reasoned
        return max(2 * call.max_tokens, MOST_REASONED_TOKENS if has_reasoned else 0)

    async def _ask(self, call: _Call) -> ReadReply | Failure:
        """Return one reply, read and journaled, or the failure after the last attempt."""
        patience_ends = math.inf
        call.prompt_bytes = prompt_bytes(call.messages, call.request.schema)
        call.least_tokens = least_prompt_tokens(call.messages)
        call.most_tokens = most_tokens(call.messages, call.request.schema)
        if len(call.request.questions) > 1:  # some services bill the state once a question
            call.most_tokens += (len(call.request.questions) - 1) * most_tokens(call.messages, None)
        call.attempts = failure_count = held_off_count = 0
        while True:
            route = self._routes[0]
            response = await self._send(call, route)
            if isinstance(response, ReadReply):
                return response
            if route is not self._routes[0]:  # abandoned meanwhile: the next address has not failed yet
                continue
            if response.is_rate_limit and not held_off_count:
                patience_ends = time.monotonic() + RATE_LIMIT_PATIENCE_S
            held_off_count += response.is_rate_limit
            failure_count += not (response.is_rate_limit or route.breaker.is_gone)
            is_out_of_time = response.is_outlasted or time.monotonic() >= patience_ends
            if not response.is_retried or is_out_of_time or failure_count >= self._settings.max_attempts:
                return self._give_up(response)
            if not route.breaker.is_gone:  # otherwise the circuit breaker spaces the probes
                pause_s = wait_s(failure_count + held_off_count - 1, response.retry_after_s, self._rng)
                report_retry(self._run_id, route.base_url, response, pause_s)
                await self._pause(pause_s)

    @asynccontextmanager
    async def _turn(self, call: _Call, route: Route) -> AsyncIterator[None]:
        """Turn to send a request: alone until a reply has shown that the endpoint fits the run."""
        if self._is_first_turn(call, route):
            async with route.first_turn:
                if self._is_first_turn(call, route):  # another request may have shown it meanwhile
                    yield
                    return
        yield

    def _is_first_turn(self, call: _Call, route: Route) -> bool:
        """Whether the endpoint still has to show log-probabilities, or token counts within a budget's reservation."""
        is_uncounted = self._budget.limit_usd is not None and not route.has_reply
        return is_uncounted or (call.request.is_logprobs and not route.has_logprobs)

    async def _send(self, call: _Call, route: Route) -> ReadReply | Failure:
        """Send one request within a slot and with its worst cost reserved; a reply is journaled before settlement."""
        expected = call.prompt_bytes / BYTES_PER_TOKEN + min(call.max_tokens, USUAL_COMPLETION_TOKENS)
        async with self._turn(call, route), route.limiter.slot(expected), route.breaker.attempt():
            self.check_stopped()
            if route is not self._routes[0]:
                return Failure("the address was given up", is_retried=True, may_be_billed=False)
            ticket = await self._budget.reserve(
                worst_cost_usd(route.price, call.most_tokens, call.max_tokens, self._settings.service_tier)
            )
            paid_usd: float | None = 0.0
            try:
                self.check_stopped()
                paid_usd = None  # a request interrupted here may be billed
                response = await self._request(call, route)
                if isinstance(response, EndpointUnavailable):  # the endpoint refused it
                    paid_usd = 0.0
                    return self._switch_route(route, response)
                if isinstance(response, Failure):
                    paid_usd = None if response.may_be_billed else 0.0
                    return self._note_failure(route, response)
                with report_circuit_change(self._run_id, route.base_url, route.breaker):
                    route.note_reply(response, expected)
                paid_usd = (
                    None
                    if response.usage is None
                    else cost_usd(route.price, response.usage, tier=response.service_tier)
                )
                read = self._record(call, response, paid_usd)
                return (
                    self._leave_without_logprobs(route)
                    if read.status == "no_logprobs" and not route.has_logprobs
                    else read
                )
            finally:
                self._budget.settle(ticket, paid_usd)

    def _leave_without_logprobs(self, route: Route) -> Failure:
        """Switch to the next address, because this one returns no log-probabilities."""
        return self._switch_route(
            route,
            EndpointUnavailable(
                f"{route.base_url}: {self._settings.model} gives no log-probabilities, which `mode: logprobs` needs; "
                "expected another model, or `mode: reply`"
            ),
        )

    async def _request(self, call: _Call, route: Route) -> Reply | Failure | EndpointUnavailable:
        call.attempts += 1
        call.request_count += 1
        call.asked_at = datetime.now(UTC)
        is_shared = call.question.prefix in self.shared_prefixes
        request = replace(call.request, messages=call.messages, is_shared=is_shared)
        body = request_body(self._settings, request, call.question.replicate, call.max_tokens, route.address)
        asked_ns = time.time_ns()
        response: Reply | Failure | EndpointUnavailable
        try:
            response = await route.connection.send(body)
        except EndpointUnavailable as fault:
            response = fault
        if isinstance(response, Reply):
            self._heard_at, self._quiet_s = time.monotonic(), FIRST_QUIET_S
            response = drop_false_usage(response, call.least_tokens)
            if response.doubt is not None:
                subject = f"{self._settings.model} at {route.base_url}"
                self.doubts.setdefault(response.is_maybe_cut, false_count_sentence(subject, response))
        report_request(self._run_id, self._settings.model, route.base_url, route.price, asked_ns, response)
        return response

    def _record(self, call: _Call, reply: Reply, paid_usd: float | None) -> ReadReply:
        """Read a reply and journal it, usable or not; for batched criteria, return the worst reading."""
        reads = read_parts(call.request, reply, is_plain=self._settings.is_plain)
        call.has_reasoned |= reply.has_thought or bool(reply.usage and reply.usage.reasoning_tokens)
        columns = reply_columns(reply, paid_usd, call.prompt_bytes, call.attempts, call.asked_at)
        columns |= call.request.note(reply) if call.request.note else {}
        judgments = [
            judgment_row(self._run_id, part, self._settings.judge, read)
            | share
            | {"prompt_digest": call.question.prompt_digest}
            for part, read, share in zip(
                call.parts, reads, shared_columns(columns, call.request, len(reads)), strict=True
            )
        ]
        self._journal.append(*judgments)
        call.judgments += judgments
        for index, part_read in enumerate(reads):
            if index not in call.reads or call.reads[index].status != "scored":
                call.reads[index] = part_read
        read = next(
            (part_read for part_read in call.reads.values() if part_read.status in CUT_OFF | REPAIRED), call.reads[0]
        )
        self._is_ever_answered = True
        self._outlasted_count = 0
        return read

    def _note_failure(self, route: Route, failure: Failure) -> Failure:
        with report_circuit_change(self._run_id, route.base_url, route.breaker):
            is_over = route.note_failure(failure)
        if route.breaker.is_gone and len(self._routes) > 1:  # another address is available
            return self._switch_route(route, EndpointUnavailable(failure.reason))
        return replace(failure, is_outlasted=True) if is_over else failure

    def _switch_route(self, route: Route, fault: EndpointUnavailable) -> Failure:
        """Switch to the next address; raises the fault if there is none."""
        if route is self._routes[0]:
            if len(self._routes) == 1:
                raise fault
            self._routes.popleft()
            route.stop()
            self._abandoned.append(route)
            report_route_left(self._run_id, route.base_url)
        return Failure(str(fault), is_retried=True, may_be_billed=False)

    def _give_up(self, failure: Failure) -> Failure:
        """Count a call without a reply.

        Raises `EndpointUnavailable` if the endpoint, not the call, appears to be at fault; `RefusedSetting` if it is
        a default.
        """
        if not (self._is_ever_answered or self._is_ever_read):
            refused = refused_setting(self._settings, failure.parameter, failure.reason)
            if refused is not None:
                raise refused
        self._refused_count += not (failure.is_retried or failure.is_of_request)
        self._outlasted_count += failure.is_outlasted
        if failure.is_outlasted and (not failure.is_answered or self._outlasted_count >= MOST_CALLS_OUTLASTED):
            raise EndpointUnavailable(
                f"{self._address}: no request was answered for {self._settings.patience_s:g} s, the last one ended "
                f"with: {failure.reason}; finished judgments are stored, and the same command resumes"
            )
        if not self._is_ever_answered and self._refused_count >= MOST_CALLS_REFUSED:
            remedy = "" if failure.remedy is None else f"; {failure.remedy}"
            raise EndpointUnavailable(
                f"{self._address}: {MOST_CALLS_REFUSED} requests were refused before any was answered, the last with: "
                f"{failure.reason}{remedy}"
            )
        return failure

    def _count_unreadable(self, call: _Call) -> None:
        """Count a call whose replies can't be read. Raises `EndpointUnavailable` if none ever could."""
        if self._is_ever_read or not call.reads:
            return
        kinds = UNREADABLE if call.request.schema is not None else UNREADABLE - CUT_OFF
        self._is_ever_read = any(read.status not in kinds for read in call.reads.values())
        first = call.judgments[0]
        if call.request.is_embedding:
            self._unreadable.append(str(first["rationale"]))
        else:
            self._unreadable.append(
                describe_unreadable(
                    first["reply"], first["status"], first["rationale"], is_typed=bool(call.request.questions)
                )
            )
        if not self._is_ever_read and len(self._unreadable) >= MOST_CALLS_UNREADABLE:
            raise EndpointUnavailable(
                f"{self._address}: none of the first {MOST_CALLS_UNREADABLE} questions to {self._settings.model} got a "
                f"readable reply; the first reply: {self._unreadable[0]}"
            )

    @property
    def _address(self) -> str:
        return self._routes[0].base_url

    async def _pause(self, pause_s: float) -> None:
        """Wait without a slot, at most until the session stops."""
        try:
            async with asyncio.timeout(pause_s):
                await self._stopped.wait()
        except TimeoutError:
            return
        self.check_stopped()

    def check_stopped(self) -> None:
        """Raise the fault that ended the session, if any."""
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
            is_typed = bool(call.request.questions)  # chat completions keep the reason that they had
            reason = f"{TOO_LONG if read.is_too_long and is_typed else 'endpoint_error'}: {read.reason}"
            reason = FILTERED if read.is_filtered else reason
            return Outcome("unscored", reason=reason, is_too_long=read.is_too_long, **paid)
        if call.request.parts:
            parts = tuple(outcome_of(call.reads[index]) for index in range(len(call.parts)))
            return replace(outcome_of(read, **paid), parts=parts)
        return outcome_of(read, **paid)


def _retry_left(retries: list[frozenset[str]], read: ReadReply) -> frozenset[str] | None:
    """Kind of retry that an unusable reply still has left."""
    return next((retry for retry in retries if read.status in retry), None)


JUDGE = logging.getLogger(f"{LOGGER}.judge")


def report_request(
    run_id: str,
    model: str,
    base_url: str,
    price: Price | None,
    asked_ns: int,
    response: Reply | Failure | EndpointUnavailable,
) -> None:
    """Count and trace an answered request with its tokens, dollars and time. asked_ns: time of sending."""
    reply = response if isinstance(response, Reply) else None
    usage = reply.usage if reply else None
    paid_usd = cost_usd(price, usage, tier=reply.service_tier) if reply and usage else None
    count_request(run_id, is_paid=reply is not None, cost_usd=paid_usd)
    traced = tracing()
    if traced is not None:
        request = FinishedRequest(
            model,
            base_url,
            asked_ns,
            time.time_ns(),
            reply.model_returned if reply else None,
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
            paid_usd,
        )
        traced.request(run_id, request, None if isinstance(response, Reply) else failure_kind(response))


def report_retry(run_id: str, base_url: str, failure: Failure, wait_s: float) -> None:
    """Log that a request is retried, and when: after a failure or a rate limit."""
    event, kind = "judge.limited" if failure.is_rate_limit else "judge.retry", failure_kind(failure)
    fields = {"run_id": run_id, "server": base_url, "error_type": kind, "wait_seconds": round(wait_s, 3)}
    log_event(JUDGE, logging.INFO, event, f"{base_url}: {kind}; asked again in {wait_s:.1f} s", **fields)


@contextmanager
def report_circuit_change(run_id: str, base_url: str, breaker: CircuitBreaker) -> Iterator[None]:
    """Log if the endpoint stops answering, or answers again, within the block."""
    was_gone = breaker.is_gone
    yield
    if breaker.is_gone != was_gone:
        event, sentence, level = ("back", "answers again", logging.INFO)
        if breaker.is_gone:
            event, sentence, level = ("gone", "does not answer; one request at a time tests it", logging.WARNING)
        log_event(JUDGE, level, f"judge.{event}", f"{base_url} {sentence}", run_id=run_id, server=base_url)


def report_route_left(run_id: str, base_url: str) -> None:
    """Log that an address of a judge was abandoned for the next one."""
    sentence = f"{base_url} is given up; the next address is asked"
    log_event(JUDGE, logging.WARNING, "judge.left", sentence, run_id=run_id, server=base_url)


def failure_kind(response: Failure | EndpointUnavailable) -> str:
    """Kind of a failure, as `HTTP 429`, without the endpoint's text, which may repeat the prompt."""
    return response.reason.partition(":")[0] if isinstance(response, Failure) else type(response).__name__

"""Connection to one address of a judge: requests, replies, and the failures between them.

A route is such a connection with its price, rate limiter and circuit breaker.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.prices import Price, find_price, mistyped_model_hint
from gradebook.tasks.judging.replies.completion import CONTEXT_TOO_LONG, NO_MODEL, NO_QUOTA, WRONG_KEY, ErrorBody, Reply
from gradebook.tasks.judging.settings.aws_signature import AWS
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import fresh_key, refused_key_sentence
from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.settings.providers import address_variables_hint
from gradebook.tasks.judging.transport.endpoint import endpoint_of
from gradebook.tasks.judging.transport.limits import (
    LONGEST_PROBE_WAIT_S,
    START,
    START_ON_THIS_MACHINE,
    CircuitBreaker,
    Limiter,
)
from gradebook.tasks.judging.transport.redaction import KeyMask
from gradebook.tasks.judging.transport.retry_policy import (
    FILTER_CODES,
    endpoint_time,
    is_filter,
    is_retried,
    may_be_billed,
    retry_after_s,
)
from gradebook.tasks.system.operator_settings import is_loopback

# What to set in a judge file, by the parameter that an endpoint refuses.
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "set `temperature: null` in the judge file",
        "response_format": "set `reply_format: text` in the judge file",
        "logprobs": "set `mode: reply` in the judge file",
        "seed": "take `seed` out of the judge file",
        "service_tier": "take `service_tier` out of the judge file",
        "reasoning_effort": "set another `reasoning_effort` in the judge file, or take it out",
        "verbosity": "take `verbosity` out of the judge file",
        "thinking": "set `reasoning_effort` in place of `thinking` in the judge file",
        "max_tokens": "set another `max_tokens` in the judge file",
        "max_completion_tokens": "set another `max_tokens` in the judge file",
    }
)
CODES_OF_REQUESTS = (CONTEXT_TOO_LONG, *FILTER_CODES)


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a usable reply."""

    reason: str
    is_retried: bool
    may_be_billed: bool  # the model may have worked on the request
    is_rate_limit: bool = False
    is_of_request: bool = False  # caused by this request; another one may succeed
    is_filtered: bool = False  # refused for the content of the case
    is_outage: bool = False  # no answer, or a 5xx
    is_timeout: bool = False
    is_answered: bool = False  # with an HTTP status
    is_outlasted: bool = False  # the endpoint has been gone for longer than patience
    took_s: float = 0.0  # from sending the request
    retry_after_s: float | None = None
    headers: Mapping[str, str] | None = None
    parameter: str | None = None  # of the request, which the endpoint refuses
    is_too_long: bool = False  # a request with less may be answered

    @property
    def remedy(self) -> str | None:
        """Setting of the judge file to change where the endpoint refuses a parameter."""
        return REMEDIES.get(self.parameter or "")


def refused_key(address: Address, answered: str) -> EndpointUnavailable:
    """Fault for a key that the endpoint does not accept for any request.

    answered: status and reason, without the key.
    """
    return EndpointUnavailable(f"{address.base_url} answered {answered}: {refused_key_sentence(address, os.environ)}")


class Connection:
    """Connection to one address of a judge. Created and used in one event loop.

    The first one imports aiohttp, which takes a fifth of a second that a run without a judge need not wait for.
    """

    def __init__(self, settings: JudgeSettings, address: Address, key: str) -> None:
        from gradebook.tasks.judging.transport.http_client import BoundedSession

        self._model, self._settings = settings.model, settings
        self._has_answered = False
        self._names: dict[str, str] = {}  # of parameters, by the names that were refused
        self._timeout_s = settings.timeout_s
        self._address, self._key = address, key
        self._form = endpoint_of(address)
        self._mask = KeyMask.of(address, key)
        self._session = BoundedSession(address, key, settings.max_in_flight + 1)

    async def close(self) -> None:
        await self._session.close()

    async def send(self, body: dict[str, Any]) -> Reply | Failure:
        """Send one request body. Raises `EndpointUnavailable` if no other request would succeed either.

        Where the endpoint refuses the name of a parameter, such as the token limit, this and all later requests have
        the other one, which means the same.
        """
        sent = self._renamed(body)
        response = await self._exchange(sent)
        refused = response.parameter if isinstance(response, Failure) else None
        if refused is not None and refused in sent and refused in self._form.other_names:
            if refused not in self._names.values():
                self._names[refused] = self._form.other_names[refused]
            if refused in self._names:
                response = await self._exchange(self._renamed(body))
        return response

    def _renamed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Body with its parameters under the learned names."""
        return {self._names.get(name, name): value for name, value in body.items()} if self._names else body

    async def _renew_key(self) -> None:
        """Send and mask a new token where a program prints it, or AWS credentials are renewed."""
        if (self._address.key or "").startswith(("command:", AWS)):
            key = await asyncio.to_thread(fresh_key, self._address, self._key)
            if key != self._key:
                self._mask = KeyMask.of(self._address, key, self._key)
                self._key = key
                self._session.renew(key)

    async def _exchange(self, body: dict[str, Any]) -> Reply | Failure:
        import aiohttp

        await self._renew_key()

        path = self._form.path(body)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                status, headers, content = await self._session.post(path, orjson.dumps(body))
        except TimeoutError:
            reason, took_s = f"no reply within {self._timeout_s:g} s", time.perf_counter() - started
            return Failure(reason, True, True, is_outage=True, is_timeout=True, took_s=took_s)
        except aiohttp.ClientError as error:
            return _connection_failure(error, self._address)
        took_s = time.perf_counter() - started
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return self._status_failure(status, headers, self._form.read_error(content), path, took_s)
        reply = self._mask_texts(self._form.read(path, self._mask.content(content), took_s * 1000))
        if reply.error is not None:
            return self._status_failure(reply.error.status, headers, reply.error, path, took_s, within=reply)
        self._has_answered = True
        return replace(reply, headers=headers, base_url=self._address.base_url)

    def _mask_texts(self, reply: Reply) -> Reply:
        """Remove the key, which an endpoint may echo, from a reply; masked again, as the body may not be UTF-8."""
        return replace(
            reply,
            text=self._masked(reply.text),
            refusal=self._masked(reply.refusal),
            finish_reason=self._masked(reply.finish_reason),
            model_returned=self._masked(reply.model_returned),
            service_tier=self._masked(reply.service_tier),
            system_fingerprint=self._masked(reply.system_fingerprint),
        )

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else self._mask.text(text)

    def _status_failure(
        self,
        status: int,
        headers: Mapping[str, str],
        fault: ErrorBody,
        path: str,
        took_s: float,
        within: Reply | None = None,
    ) -> Failure:
        """Failure by the status of an answer, or of an error. within: the HTTP 200 that the error came with."""
        answered = self._mask.status_text(status if within is None else f"200 with the error {status}", fault.body)
        is_wrong_key = status == 401 or (status == 400 and fault.code == WRONG_KEY)
        if is_wrong_key or (status == 403 and not self._has_answered):  # a later 403 may be caused by the request
            raise refused_key(self._address, answered) from None
        if status == 402 or NO_QUOTA in (fault.code, fault.type):
            remedy = "add credit to the account, or name another address in `fallbacks`"
            reason = f"{self._address.base_url} answered {answered}: the quota is used up: {remedy}"
            raise EndpointUnavailable(reason) from None
        if status == 404 or (status == 400 and fault.code == NO_MODEL):
            raise EndpointUnavailable(
                f"{self._address.base_url} answered {answered}; expected an endpoint with {path} that "
                f"serves the model {self._model!r}; set `model` to one that {self._address.base_url}/models lists"
                f"{address_variables_hint(self._address.base_url, os.environ)}{mistyped_model_hint(self._settings)}"
            ) from None
        if status == HTTPStatus.NOT_IMPLEMENTED:
            raise EndpointUnavailable(
                f"{self._address.base_url} answered {answered}; expected a server whose model can be asked at {path}"
            ) from None
        if 300 <= status < 400:
            location = self._mask.line(headers.get("location", "no address"))
            raise EndpointUnavailable(
                f"{self._address.base_url} answered HTTP {status}: found a redirect to {location}, which is not "
                "followed; expected the endpoint itself"
            ) from None
        is_of_request = status == 413 or fault.code in CODES_OF_REQUESTS
        return Failure(
            answered,
            is_retried=is_retried(status),
            may_be_billed=bool(within and within.usage) or may_be_billed(status, fault.code, fault.type),
            is_rate_limit=status == 429,
            is_of_request=is_of_request,
            is_filtered=status == 400 and is_filter(fault.code, fault.type),
            is_outage=status >= 500,
            is_answered=True,
            took_s=took_s,
            retry_after_s=retry_after_s(headers, endpoint_time(headers)),
            headers=headers,
            parameter=fault.refused_parameter if status in (400, 422) and not is_of_request else None,
            is_too_long=status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or fault.code == CONTEXT_TOO_LONG,
        )


def refused_certificate(address: Address, error: BaseException) -> EndpointUnavailable | None:
    """Fault for a certificate that is not accepted; None if the error has another cause."""
    causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLCertVerificationError)]
    if not causes:
        return None
    messages = [cause.verify_message for cause in causes if hasattr(cause, "verify_message")]  # aiohttp's own has none
    why = messages[-1] if messages else "not verified"
    return EndpointUnavailable(
        f"{address.base_url}: its certificate is not accepted ({why}); expected one that this machine trusts "
        "(SSL_CERT_FILE names others)"
    )


def _connection_failure(error: Exception, address: Address) -> Failure:
    import aiohttp

    fault = refused_certificate(address, error)
    if fault is not None:
        raise fault from None
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Failure("no connection: its host name was not found", True, False, is_outage=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        return Failure("no connection", True, False, is_outage=True)
    return Failure("the connection was dropped", True, True, is_outage=True)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


class Route:
    """Endpoint with its price, limiter and circuit breaker; replies and failures are noted in both.

    has_reply: whether it ever answered with HTTP 200; has_logprobs: with log-probabilities. Until then a request under
    a budget, or one that needs them, runs alone, with `first_turn` locked: an endpoint that breaks the budget's bound,
    or has no log-probabilities, costs one reply, not all in flight.
    """

    def __init__(self, settings: JudgeSettings, address: Address, key: str, price: Price | None) -> None:
        self.base_url = address.base_url
        self.price = price
        self.has_reply = self.has_logprobs = False
        self.first_turn = asyncio.Lock()
        self.address = address
        self.form = endpoint_of(address)
        self.connection = Connection(settings, address, key)
        is_near = is_loopback(urlsplit(address.base_url).hostname or "")
        self.limiter = Limiter(
            settings.max_in_flight,
            settings.requests_per_minute,
            settings.tokens_per_minute,
            start=START_ON_THIS_MACHINE if is_near else START,
            read_limit=self.form.rate_limit,
        )
        self.breaker = CircuitBreaker(settings.patience_s, settings.timeout_s + LONGEST_PROBE_WAIT_S)

    def note_reply(self, reply: Reply, expected_tokens: float) -> None:
        """Learn from an HTTP 200."""
        self.has_reply = True
        self.has_logprobs |= reply.choices is not None
        self.breaker.note_answer()
        self.limiter.note_reply(reply.headers or {}, reply.latency_ms / 1000)
        if reply.usage is not None:
            self.limiter.note_tokens(expected_tokens, self.form.limited_tokens(reply.usage))

    def note_failure(self, failure: Failure) -> bool:
        """Learn from any other result. Returns whether the endpoint has been gone for longer than patience."""
        if failure.is_rate_limit:
            self.limiter.note_rate_limit(failure.headers or {}, failure.retry_after_s, failure.took_s)
        if failure.is_timeout:
            self.limiter.note_timeout(failure.took_s)
        if failure.is_outage:
            return self.breaker.note_failure()
        self.breaker.note_answer()
        return False

    def stop(self) -> None:
        """Release every waiter; callers check the stop flag themselves."""
        self.limiter.stop()
        self.breaker.stop()


def routes_of(settings: JudgeSettings, keys: Sequence[str], price: Price | None) -> Iterator[Route]:
    """Routes to the addresses of a judge, in order. price: at its own address; the others have their own.

    keys: as `read_keys` returns them.
    """
    for address, key in zip(settings.addresses, keys, strict=True):
        at_address = price if address is settings else find_price(settings, address)
        yield Route(settings, address, key, at_address)

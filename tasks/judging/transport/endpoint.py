"""Endpoint of a judge: request bodies, the same online and in a batch, and their replies."""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.replies.completion import ErrorBody, Reply, read_completion, read_embeddings, read_error
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import Address, JudgeSettings
from gradebook.tasks.judging.settings.keys import fresh_key, refused_key_words
from gradebook.tasks.judging.transport.redaction import KeyMask
from gradebook.tasks.judging.transport.retry_policy import (
    FILTER_CODES,
    is_filter,
    is_retried,
    may_be_billed,
    retry_after_s,
)

CAPPED_BY_COMPLETION_TOKENS = ("api.openai.com", ".openai.azure.com")  # their newer models refuse `max_tokens`
LIMIT_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
COMPLETIONS, EMBEDDINGS = "/chat/completions", "/embeddings"
MOST_TOP_LOGPROBS = 20  # maximum that endpoints return


def request_body(
    settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str | None = None
) -> dict[str, Any]:
    """Body of one chat completion, or of one request for embeddings.

    base_url: address it is sent to, if not the judge's own.
    """
    if request.is_embedding:
        texts = [message["content"] for message in request.messages]
        own = {"model": settings.model, "input": texts, "encoding_format": "float"}
        return {**settings.extra_body, **request.extra_body, **own}
    body: dict[str, Any] = {
        **settings.extra_body,
        **request.extra_body,
        "model": settings.model,
        "messages": request.messages,
        token_limit_name(base_url or settings.base_url): max_tokens,
    }
    if request.schema is not None and settings.reply_format == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
    elif request.schema is not None and settings.reply_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    if request.is_logprobs:
        body |= {"logprobs": True, "top_logprobs": MOST_TOP_LOGPROBS}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.seed is not None:
        body["seed"] = settings.seed + replicate
    if settings.thinking is not None:
        body["thinking"] = (
            {"type": "enabled", "budget_tokens": settings.thinking} if settings.thinking else {"type": "disabled"}
        )
    for name in ("service_tier", "reasoning_effort", "verbosity"):
        if getattr(settings, name) is not None:
            body[name] = getattr(settings, name)
    return body


def token_limit_name(base_url: str) -> str:
    """Name of the parameter that limits the tokens of a reply, by endpoint."""
    host = urlsplit(base_url).hostname or ""
    return "max_completion_tokens" if host.endswith(CAPPED_BY_COMPLETION_TOKENS) else "max_tokens"


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
        "thinking": "take `thinking` out of the judge file",
        "max_tokens": "set another `max_tokens` in the judge file",
        "max_completion_tokens": "set another `max_tokens` in the judge file",
    }
)
CODES_OF_REQUESTS = ("context_length_exceeded", *FILTER_CODES)
MOST_DATE_LENGTH = 64


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
    retry_after_s: float | None = None
    headers: Mapping[str, str] | None = None
    parameter: str | None = None  # of the request, which the endpoint refuses

    @property
    def remedy(self) -> str | None:
        """Setting of the judge file to change where the endpoint refuses a parameter."""
        return REMEDIES.get(self.parameter or "")


def refused_key(address: Address, answered: str) -> EndpointUnavailable:
    """Fault for a key that the endpoint does not accept for any request.

    answered: status and reason, without the key.
    """
    return EndpointUnavailable(f"{address.base_url} answered {answered}: {refused_key_words(address, os.environ)}")


class Endpoint:
    """Connection to one address of a judge. Created and used in one event loop.

    The first one imports aiohttp, which takes a fifth of a second that a run without a judge need not wait for.
    """

    def __init__(self, settings: JudgeSettings, address: Address, key: str) -> None:
        from gradebook.tasks.judging.transport.http_client import BoundedSession

        self._model = settings.model
        self._has_answered = False
        self._limit_name: str | None = None  # learned from a refusal; None: as `request_body` has it
        self._timeout_s = settings.timeout_s
        self._address, self._key = address, key
        self._mask = KeyMask.of(address, key)
        self._session = BoundedSession(address, key, settings.max_in_flight + 1)

    async def close(self) -> None:
        await self._session.close()

    async def send(self, body: dict[str, Any]) -> Reply | Failure:
        """Send one request body. Raises `EndpointUnavailable` if no other request would succeed either.

        Where the endpoint refuses the name of the token limit, this and all later requests have the other one, which
        means the same.
        """
        sent = self._with_limit(body)
        came = await self._exchange(sent)
        if isinstance(came, Failure) and came.parameter in sent.keys() & LIMIT_NAMES.keys():
            if self._limit_name is None:
                self._limit_name = LIMIT_NAMES[came.parameter or ""]
            if self._limit_name not in sent:
                came = await self._exchange(self._with_limit(body))
        return came

    def _with_limit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Body with its token limit under the learned name."""
        if self._limit_name is None:
            return body
        own = next(iter(body.keys() & LIMIT_NAMES.keys()), None)
        return {self._limit_name if name == own else name: value for name, value in body.items()}

    async def _renew_key(self) -> None:
        """Send and mask a new token where a program prints it."""
        if (self._address.key or "").startswith("command:"):
            key = await asyncio.to_thread(fresh_key, self._address, self._key)
            if key != self._key:
                self._mask = KeyMask.of(self._address, key, self._key)
                self._key = key
                self._session.renew(key)

    async def _exchange(self, body: dict[str, Any]) -> Reply | Failure:
        import aiohttp

        await self._renew_key()

        path, read = (EMBEDDINGS, read_embeddings) if "input" in body else (COMPLETIONS, read_completion)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                status, headers, content = await self._session.post(path, orjson.dumps(body))
        except TimeoutError:
            return Failure(f"no reply within {self._timeout_s:g} s", True, True, is_outage=True, is_timeout=True)
        except aiohttp.ClientError as error:
            return _connection_failure(error, self._address)
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return self._status_failure(status, headers, read_error(content), path)
        latency_ms = (time.perf_counter() - started) * 1000
        reply = self._mask_texts(read(self._mask.content(content), latency_ms))
        if reply.error is not None:
            return self._status_failure(reply.error.status, headers, reply.error, path, within=reply)
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
        self, status: int, headers: Mapping[str, str], fault: ErrorBody, path: str, within: Reply | None = None
    ) -> Failure:
        """Failure by the status of an answer, or of an error. within: the HTTP 200 that the error came with."""
        answered = self._mask.status_text(status if within is None else f"200 with the error {status}", fault.body)
        if status == 401 or (status == 403 and not self._has_answered):  # a later 403 may be caused by the request
            raise refused_key(self._address, answered) from None
        if status == 402 or "insufficient_quota" in (fault.code, fault.type):
            mend = "add credit to the account, or name another address in `fallbacks`"
            reason = f"{self._address.base_url} answered {answered}: the quota is used up: {mend}"
            raise EndpointUnavailable(reason) from None
        if status == 404:
            raise EndpointUnavailable(
                f"{self._address.base_url} answered {answered}; expected an endpoint with {path} that "
                f"serves the model {self._model!r}; set `model` to one that {self._address.base_url}/models lists"
            ) from None
        if 300 <= status < 400:
            place = self._mask.line(headers.get("location", "no address"))
            raise EndpointUnavailable(
                f"{self._address.base_url} answered HTTP {status}: found a redirect to {place}, which is not followed; "
                "expected the endpoint itself"
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
            retry_after_s=retry_after_s(headers, _endpoint_time(headers)),
            headers=headers,
            parameter=fault.refused_parameter if status in (400, 422) and not is_of_request else None,
        )


def _endpoint_time(headers: Mapping[str, str]) -> datetime:
    """Current time by the endpoint's clock, for reading its dates; by our clock if it sends no date."""
    try:
        date = parsedate_to_datetime(headers["date"][:MOST_DATE_LENGTH])
    except (LookupError, ValueError, TypeError, OverflowError):
        return datetime.now(UTC)
    return date if date.tzinfo else date.replace(tzinfo=UTC)


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

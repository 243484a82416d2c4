"""One request to an OpenAI-compatible endpoint: what came back, or what went wrong and whether it may pass."""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import aiohttp
import httpx2
import openai
import orjson
from openai import AsyncOpenAI

from rubrics.errors import EndpointUnavailable
from rubrics.judging.replies import TokenChoices, clean_text
from tasks.judging.bounded_http import BoundedHttpClient
from tasks.judging.keys import SHORTEST_SECRET, named_key
from tasks.judging.prices import Usage
from tasks.judging.retries import is_retried, retry_after_s
from tasks.judging.settings import Address, JudgeSettings

CODES_OF_REQUESTS = ("context_length_exceeded", "content_filter", "content_policy_violation")  # of HTTP 400
IDLE_S = 4.0  # below the 5 s after which common servers hang up on an idle connection
MOST_MESSAGE_LENGTH = 300
MOST_NAME_LENGTH = 200
MOST_DATE_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP 200. usage, service_tier and choices are None where the endpoint did not say."""

    text: str | None
    finish_reason: str | None
    refusal: str | None
    model_returned: str | None
    usage: Usage | None
    latency_ms: float
    service_tier: str | None = None
    choices: TokenChoices | None = None  # log-probabilities, token by token
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a usable reply."""

    reason: str
    is_retried: bool
    may_be_billed: bool  # it may have reached the model
    is_rate_limit: bool = False
    is_of_request: bool = False  # refused for what it asks: another one may fare better
    is_outage: bool = False  # nobody answered, or somebody who could not
    is_answered: bool = False  # with an HTTP status
    is_outlasted: bool = False  # the endpoint has been gone for longer than anybody waits
    retry_after_s: float | None = None
    headers: Mapping[str, str] | None = None


def refused_key(address: Address, status: int) -> EndpointUnavailable:
    """The endpoint does not accept the key, whatever it is asked."""
    return EndpointUnavailable(
        f"{address.base_url} answered HTTP {status}: it does not accept the key in {named_key(address.key)}"
    )


class Endpoint:
    """The connection to one address of a judge. To be made and used in one event loop."""

    def __init__(self, settings: JudgeSettings, address: Address, key: str) -> None:
        self._model = settings.model
        self._has_answered = False
        self._timeout_s = settings.timeout_s
        self._address = address
        self._secret = key if len(key) >= SHORTEST_SECRET else None
        limits = httpx2.Limits(
            max_connections=settings.max_in_flight + 1,
            max_keepalive_connections=settings.max_in_flight + 1,
            keepalive_expiry=IDLE_S,
        )
        timeout = httpx2.Timeout(settings.timeout_s)
        http_client = BoundedHttpClient(limits=limits, timeout=timeout)
        self._client = AsyncOpenAI(
            api_key=key, base_url=address.base_url, max_retries=0, timeout=timeout, http_client=http_client
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def send(self, body: dict[str, Any]) -> Reply | Failure:
        """Send one request body. Raises `EndpointUnavailable` where no other request would fare better."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):  # the client's own timeout is one a read
                # `chat.completions.create` walks through the types of what is sent, half of a request's CPU time.
                raw = await self._client.post("/chat/completions", cast_to=httpx2.Response, content=orjson.dumps(body))
        except openai.APIStatusError as error:
            failure = self._status_failure(error)
        except TimeoutError:
            failure = Failure(f"no reply within {self._timeout_s:g} s", True, True, is_outage=True)
        except (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError) as error:
            failure = _connection_failure(error, self._address)
        else:
            self._has_answered = True
            latency_ms = (time.perf_counter() - started) * 1000
            return replace(self._read(raw.content, latency_ms), headers=raw.headers)
        return failure

    def _read(self, content: bytes, latency_ms: float) -> Reply:
        if self._secret is None:
            return read_completion(content, latency_ms)
        # An endpoint may echo what it was sent, and its JSON may write some letters in another way.
        reply = read_completion(content.replace(self._secret.encode(), b"[key]"), latency_ms)
        text, refusal, model = map(self._unkeyed, (reply.text, reply.refusal, reply.model_returned))
        return replace(reply, text=text, refusal=refusal, model_returned=model)

    def _unkeyed(self, text: str | None) -> str | None:
        return text if text is None or self._secret is None else text.replace(self._secret, "[key]")

    def _status_failure(self, error: openai.APIStatusError) -> Failure:
        status, headers = error.status_code, error.response.headers
        if status == 401 or (status == 403 and not self._has_answered):  # later it may be about what was asked
            raise refused_key(self._address, status) from None
        if error.code == "insufficient_quota" or error.type == "insufficient_quota":
            told = f"{self._address.base_url} answered HTTP {status}: the quota is used up"
            raise EndpointUnavailable(told) from None
        if status == 404:
            raise EndpointUnavailable(
                f"{self._address.base_url} answered HTTP 404: no model {self._model!r} there"
            ) from None
        if 300 <= status < 400:
            place = self._struck(headers.get("location", "no address"))
            raise EndpointUnavailable(
                f"{self._address.base_url} answered HTTP {status}: found a redirect to {place}, which is not followed; "
                "expected the endpoint itself"
            ) from None
        return Failure(
            self._told(error),
            is_retried=is_retried(status),
            may_be_billed=False,
            is_rate_limit=status == 429,
            is_of_request=status == 413 or error.code in CODES_OF_REQUESTS,
            is_outage=status >= 500,
            is_answered=True,
            retry_after_s=retry_after_s(headers, _endpoint_time(headers)),
            headers=headers,
        )

    def _told(self, error: openai.APIStatusError) -> str:
        """The status and what the endpoint says to it, without the key."""
        body = error.body
        message = body.get("message") if isinstance(body, dict) else None
        told = f"HTTP {error.status_code}" + (f": {message}" if isinstance(message, str) else "")
        return self._struck(told)

    def _struck(self, told: str) -> str:
        """A line of what an endpoint says, without the key."""
        return " ".join(clean_text(self._unkeyed(told) or "").split())[:MOST_MESSAGE_LENGTH]


def _endpoint_time(headers: Mapping[str, str]) -> datetime:
    """What the endpoint's clock says, by which its dates are to be read; what ours says where it does not tell."""
    try:
        told = parsedate_to_datetime(headers["date"][:MOST_DATE_LENGTH])
    except (LookupError, ValueError, TypeError, OverflowError):
        return datetime.now(UTC)
    return told if told.tzinfo else told.replace(tzinfo=UTC)


def refused_certificate(address: Address, error: BaseException) -> EndpointUnavailable | None:
    """The endpoint's certificate is not accepted, whatever it is asked; None where that was not the fault."""
    causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLCertVerificationError)]
    if not causes:
        return None
    told = [cause.verify_message for cause in causes if hasattr(cause, "verify_message")]  # aiohttp's own has none
    why = told[-1] if told else "not verified"
    return EndpointUnavailable(
        f"{address.base_url}: its certificate is not accepted ({why}); expected one that this machine trusts "
        "(SSL_CERT_FILE names others)"
    )


def _connection_failure(error: Exception, address: Address) -> Failure:
    fault = refused_certificate(address, error)
    if fault is not None:
        raise fault from None
    causes = _causes(error)
    if any(isinstance(cause, aiohttp.ClientConnectorDNSError) for cause in causes):
        return Failure("no connection: its host name was not found", True, False, is_outage=True)
    if any(isinstance(cause, aiohttp.ClientConnectorError | httpx2.ConnectError) for cause in causes):
        return Failure("no connection", True, False, is_outage=True)
    if any(isinstance(cause, aiohttp.ServerTimeoutError | httpx2.ReadTimeout) for cause in causes):
        return Failure("no reply in time", True, True, is_outage=True)
    return Failure("the connection was dropped", True, True, is_outage=True)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def read_completion(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200; where it is no chat completion its text is kept, and the usage that it tells."""
    parsed = _parse(content)
    body = parsed if isinstance(parsed, dict) else {}
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = _written(message.get("content")), _text(message.get("refusal"))
        finish_reason, choices = _text(choice.get("finish_reason")), _choices(choice.get("logprobs"))
    except (LookupError, TypeError, AttributeError):
        text, refusal, finish_reason, choices = content.decode("utf-8", "replace"), None, None, None
    return Reply(
        text,
        finish_reason,
        refusal,
        _name(body.get("model")),
        _usage(body.get("usage")),
        latency_ms,
        _name(body.get("service_tier")),
        choices,
    )


def _parse(content: bytes) -> object:
    """What the body says as JSON; None where it is none."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(content)  # takes NaN and half of a surrogate pair, which some servers write
    except (ValueError, RecursionError):
        return None


def _written(content: object) -> str | None:
    """The text of a reply; of a list of parts the texts, without thinking and whatever else there is."""
    if not isinstance(content, list):
        return _text(content)
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(_text(part.get("text")) or "" for part in parts)


def _name(value: object) -> str | None:
    return clean_text(value, MOST_NAME_LENGTH) if isinstance(value, str) else None


def _choices(logprobs: object) -> TokenChoices | None:
    """What could have stood at each place of the reply; None unless the endpoint says so in the usual shape."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            tuple((str(each["token"]), float(each["logprob"])) for each in (token, *(token.get("top_logprobs") or ())))
            for token in content
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(usage: object) -> Usage | None:
    """None unless both counts are there: a missing count is not zero tokens."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    told = usage.get("prompt_tokens_details")
    details = told if isinstance(told, dict) else {}
    cached = min(_count(details.get("cached_tokens")) or 0, prompt)
    written = _count(details.get("cache_write_tokens")) or _count(details.get("cache_creation_tokens")) or 0
    return Usage(prompt, cached, completion, min(written, prompt - cached))


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return cast(int, value) if is_count else None

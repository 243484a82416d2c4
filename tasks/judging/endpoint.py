"""One request to an OpenAI-compatible endpoint: what came back, or what went wrong and whether it may pass."""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai
import orjson
from openai import AsyncOpenAI, DefaultAioHttpClient

from rubrics.errors import EndpointUnavailable
from tasks.judging.prices import Usage
from tasks.judging.retries import is_retried, retry_after_s
from tasks.judging.settings import KEY_VARIABLE, JudgeSettings

NO_KEY = "none"  # what local endpoints get: the client insists on a key
IDLE_S = 4.0  # below the 5 s after which common servers hang up on an idle connection
MOST_MESSAGE_LENGTH = 300
CAPPED_BY_COMPLETION_TOKENS = ("api.openai.com", ".openai.azure.com")  # their newer models refuse `max_tokens`


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP 200. usage is None where the endpoint did not say."""

    text: str | None
    finish_reason: str | None
    refusal: str | None
    model_returned: str | None
    usage: Usage | None
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a usable reply."""

    reason: str
    is_retried: bool
    may_be_billed: bool  # it may have reached the model
    is_rate_limit: bool = False
    retry_after_s: float | None = None


def read_key(environ: Mapping[str, str]) -> str:
    """Take the key from the environment. It is kept out of settings, messages and tables."""
    key = environ.get(KEY_VARIABLE, "").strip() or NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise EndpointUnavailable(f"{KEY_VARIABLE} holds characters that a key can't have")
    return key


def refused_key(settings: JudgeSettings, status: int) -> EndpointUnavailable:
    """The endpoint does not accept the key, whatever it is asked."""
    return EndpointUnavailable(
        f"{settings.base_url} answered HTTP {status}: it does not accept the key in {KEY_VARIABLE}"
    )


class Endpoint:
    """The connection to one endpoint. To be made and used in one event loop."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        key = read_key(os.environ)
        self._secret = key if len(key) >= 8 else None
        limits = httpx2.Limits(
            max_connections=settings.max_in_flight + 1,
            max_keepalive_connections=settings.max_in_flight + 1,
            keepalive_expiry=IDLE_S,
        )
        timeout = httpx2.Timeout(settings.timeout_s)
        http_client = DefaultAioHttpClient(limits=limits, timeout=timeout)
        self._client = AsyncOpenAI(
            api_key=key, base_url=settings.base_url, max_retries=0, timeout=timeout, http_client=http_client
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def send(self, body: dict[str, Any]) -> Reply | Failure:
        """Send one request body. Raises `EndpointUnavailable` where no other request would fare better."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._settings.timeout_s):  # the client's own timeout is one a read
                raw = await self._client.chat.completions.with_raw_response.create(**body)
        except openai.APIStatusError as error:
            failure = self._status_failure(error)
        except TimeoutError:
            failure = Failure(f"no reply within {self._settings.timeout_s:g} s", True, True)
        except openai.APIConnectionError as error:
            failure = _connection_failure(error)
        except (httpx2.HTTPError, aiohttp.ClientError) as error:
            failure = _connection_failure(error)
        else:
            return self._read(raw.content, (time.perf_counter() - started) * 1000)
        return failure

    def _read(self, content: bytes, latency_ms: float) -> Reply:
        if self._secret is not None:  # an endpoint that echoes what it was sent
            content = content.replace(self._secret.encode(), b"[key]")
        return read_completion(content, latency_ms)

    def _status_failure(self, error: openai.APIStatusError) -> Failure:
        status = error.status_code
        if status in (401, 403):
            raise refused_key(self._settings, status) from None
        if error.code == "insufficient_quota" or error.type == "insufficient_quota":
            raise EndpointUnavailable(
                f"{self._settings.base_url} answered HTTP {status}: the quota is used up"
            ) from None
        if status == 404:
            raise EndpointUnavailable(
                f"{self._settings.base_url} answered HTTP 404: no model {self._settings.model!r} there"
            ) from None
        wait_s = retry_after_s(error.response.headers, datetime.now(UTC))
        return Failure(self._told(error), is_retried(status), False, status == 429, wait_s)

    def _told(self, error: openai.APIStatusError) -> str:
        """The status and what the endpoint says to it, without the key."""
        body = error.body
        message = body.get("message") if isinstance(body, dict) else None
        told = f"HTTP {error.status_code}" + (f": {message}" if isinstance(message, str) else "")
        told = told if self._secret is None else told.replace(self._secret, "[key]")
        return " ".join(told.encode("utf-8", "replace").decode().split())[:MOST_MESSAGE_LENGTH]


def token_limit_name(base_url: str) -> str:
    """The name under which an endpoint takes the limit of tokens in a reply."""
    host = urlsplit(base_url).hostname or ""
    return "max_completion_tokens" if host.endswith(CAPPED_BY_COMPLETION_TOKENS) else "max_tokens"


def _connection_failure(error: Exception) -> Failure:
    causes = list(_causes(error))
    if any(isinstance(cause, aiohttp.ClientConnectorError | httpx2.ConnectError) for cause in causes):
        return Failure("no connection", True, False)
    if any(isinstance(cause, aiohttp.ServerTimeoutError | httpx2.ReadTimeout) for cause in causes):
        return Failure("no reply in time", True, True)
    return Failure("the connection was dropped", True, True)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def read_completion(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200; where it is no chat completion its text is kept as it is."""
    try:
        body = orjson.loads(content)
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = _text(message.get("content")), _text(message.get("refusal"))
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return Reply(content.decode("utf-8", "replace"), None, None, None, None, latency_ms)
    usage = _usage(body.get("usage"))
    return Reply(text, _text(choice.get("finish_reason")), refusal, _text(body.get("model")), usage, latency_ms)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(usage: object) -> Usage | None:
    """None unless both counts are there: a missing count is not zero tokens."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not _is_count(prompt) or not _is_count(completion):
        return None
    return Usage(
        cast(int, prompt), min(cast(int, cached), cast(int, prompt)) if _is_count(cached) else 0, cast(int, completion)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53

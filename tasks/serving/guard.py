"""Guard of a server: hosts, origins, tokens, sizes and headers, before any page sees the request."""

import asyncio
import hashlib
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

MOST_BODY_BYTES = 1_000_000
BODY_TIMEOUT_S = 30.0
MOST_WRONG_TOKENS, WRONG_TOKENS_S = 20, 60.0  # within this time, from all clients together
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a form would be sent with the origin `null`
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Handler = Callable[[Request], Awaitable[Response]]


class Tokens:
    """Tokens of 256 bits; only their hashes are stored."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._wrong: deque[float] = deque(maxlen=MOST_WRONG_TOKENS)

    def issue(self, name: str) -> str:
        """New token of a person."""
        token = secrets.token_urlsafe(32)
        self._names[_hash(token)] = name
        return token

    def name_of(self, token: str | None) -> str | None:
        """Person with the token. A hash is looked up, so that the time tells nothing about a token."""
        found = None if token is None else self._names.get(_hash(token))
        if found is None and token is not None:
            self._wrong.append(monotonic())
        return found

    @property
    def is_under_attack(self) -> bool:
        """Whether too many wrong tokens came of late."""
        return len(self._wrong) == MOST_WRONG_TOKENS and monotonic() - self._wrong[0] < WRONG_TOKENS_S


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


class Guard:
    """ASGI middleware. Refuses a request to another host (DNS rebinding), and a POST from another origin."""

    def __init__(self, app: Any, *, hosts: Iterable[str], headers: Mapping[str, str]) -> None:
        """hosts: HOST:PORT that requests may name. headers: of every response, beside `HEADERS`."""
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)
        self._headers = [(name.lower().encode(), value.encode()) for name, value in {**HEADERS, **headers}.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websocket is accepted

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Any) -> Response | None:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.decode("latin-1").lower())
        if len(headers.get(b"host", [])) != 1 or headers[b"host"][0] not in self._hosts:
            return PlainTextResponse("This server does not answer for that host.", 421)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get(b"origin") not in [
            [f"{scheme}://{host}"] for host in self._hosts for scheme in ("http", "https")
        ]:
            return PlainTextResponse("A page of another origin sent this.", 403)
        return None


class TooLarge(Exception):
    """The body of a request is too large, or did not come in time."""


async def read_body(request: Request, most: int = MOST_BODY_BYTES) -> bytes:
    """Whole body of a request. Raises `TooLarge` above `most` bytes, or if it takes longer than 30 s."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise TooLarge
                parts.append(part)
    except TimeoutError as error:
        raise TooLarge from error
    return b"".join(parts)


def hosts_of(host: str, port: int, trusted: Iterable[str]) -> tuple[str, ...]:
    """HOST:PORT that requests may name: the loopback names, the bound address, and trusted names behind a proxy."""
    names = dict.fromkeys([*LOOPBACK, host])
    bound = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
    return (*bound, *trusted, *(f"{name}:{port}" for name in trusted))

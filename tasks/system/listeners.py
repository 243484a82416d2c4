"""Access control and limits of HTTP servers: hosts, origins, tokens; number, duration, size and depth of requests."""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_CONNECTIONS = 512
HEADER_TIMEOUT_S = 5.0  # until a request's header is complete
BODY_TIMEOUT_S = 60.0
MOST_BODY_BYTES = 2**26
MOST_HELD_BYTES = 2**28  # size of the bodies of all requests in progress, together
MOST_HEADER_BYTES = 32_768
MOST_JSON_DEPTH = 100
_MOST_BRACKETS = 500_000  # most brackets in a JSON body
MOST_WRONG_TOKENS, WRONG_TOKENS_S = 20, 60.0  # wrong tokens of all clients together, in this many seconds
LOOPBACK = ("127.0.0.1", "localhost", "::1")
REFUSALS = {
    400: "JSON nested too deeply.",
    401: "No password.",
    403: "A page of another origin sent this, or its link is wrong or has ended.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    421: "This server does not answer for that host.",
    429: "Too many wrong tokens. Try again in a minute.",
    503: "Too many large requests at once. Try again.",
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a form would be sent with the origin `null`
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Refuse = Callable[[Scope, Headers], int | None]  # HTTP status for a request without access, else None

_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_password(text: str, expected: str) -> bool:
    """Whether two passwords are equal, compared in constant time."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


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
        """Person with the token; None if unknown. Hashes are looked up, so that the time reveals nothing of a token."""
        name = None if token is None else self._names.get(_hash(token))
        if name is None and token is not None:
            self._wrong.append(monotonic())
        return name

    def refusal(self, token: str | None) -> int | None:
        """HTTP status for a wrong token, another status after too many; None for a right token.

        A right token is never refused: with 256 bits, no number of guesses finds it.
        """
        if self.name_of(token) is not None:
            return None
        return 429 if self.is_under_attack else 403

    @property
    def is_under_attack(self) -> bool:
        """Whether too many wrong tokens came recently."""
        return len(self._wrong) == MOST_WRONG_TOKENS and monotonic() - self._wrong[0] < WRONG_TOKENS_S


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def hosts_of(port: int, host: str = LOOPBACK[0], trusted: Iterable[str] = ()) -> tuple[str, ...]:
    """HOST:PORT that requests may name: the loopback names, the bound address, and trusted names behind a proxy."""
    names = dict.fromkeys([*LOOPBACK, host])
    bound = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
    return (*bound, *trusted, *(f"{name}:{port}" for name in trusted))


def refuse_without_token(token: str | None) -> Refuse:
    """Require a token: as a bearer token, or as the password of HTTP's basic scheme. None: require none."""

    def refuse(_scope: Scope, headers: Headers) -> int | None:
        scheme, _, credentials = "".join(headers.getlist("authorization")).partition(" ")
        if scheme.lower() == "basic":
            with suppress(ValueError):
                credentials = base64.b64decode(credentials, validate=True).decode().partition(":")[2]
        return None if token is None or is_password(credentials, token) else 401

    return refuse


@dataclass(frozen=True)
class Rules:
    """Rules of a server for the requests that it takes.

    hosts: HOST:PORT that requests may name (see `hosts_of`). schemes: schemes of the origins with these hosts.
    needs_origin: whether requests that change something must name their origin, as browsers do. headers: headers of
    every response, besides `HEADERS`.
    """

    hosts: tuple[str, ...]
    refuse: Refuse
    schemes: tuple[str, ...] = ("http",)
    needs_origin: bool = False
    most_body_bytes: int = MOST_BODY_BYTES
    headers: Mapping[str, str] = field(default_factory=dict)


class Guard:
    """ASGI application in front of another one.

    Refuses other hosts' names (a web page whose name was rebound to this address), other origins, requests without
    access, and bodies that are too large, too slow, too many at once or JSON too deep. A refusal closes the
    connection.
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._held_bytes = 0
        self._hosts = frozenset(host.lower() for host in rules.hosts)
        self._origins = frozenset(f"{scheme}://{host}" for scheme in rules.schemes for host in self._hosts)
        self._headers = {**HEADERS, **rules.headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        status = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        body: list[bytes] = []
        try:
            if status is None:
                status = await self._read_body(headers, receive, body)
            if status is None and any("json" in kind.lower() for kind in headers.getlist("content-type")):
                status = 400 if json_depth(body[0]) > MOST_JSON_DEPTH else None
            if status is None:
                await self._app(scope, _replayed(body[0], receive), self._with_headers(send))
            else:
                refusal = PlainTextResponse(REFUSALS[status], status, {"Connection": "close"})
                await refusal(scope, receive, self._with_headers(send))
        finally:
            self._held_bytes -= sum(map(len, body))

    async def _read_body(self, headers: Headers, receive: Receive, body: list[bytes]) -> int | None:
        """Read a body into a list, as its only entry. Returns the HTTP status if the body is refused, else None."""
        most_bytes, size = self._rules.most_body_bytes, 0
        with suppress(ValueError):
            if any(int(length) > most_bytes for length in headers.getlist("content-length")):
                return 413
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while (message := await receive())["type"] == "http.request":
                    body.append(message.get("body", b""))
                    size += len(body[-1])
                    self._held_bytes += len(body[-1])
                    if size > most_bytes:
                        return 413
                    if self._held_bytes > MOST_HELD_BYTES:
                        return 503
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            return 408
        body[:] = [b"".join(body)]
        return None

    def _refusal(self, scope: Scope, headers: Headers) -> int | None:
        """HTTP status if a request is refused before its body is read, else None."""
        hosts, origins = headers.getlist("host"), [origin.lower() for origin in headers.getlist("origin")]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421
        changes = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        lacks_origin = self._rules.needs_origin and changes and len(origins) != 1
        if lacks_origin or not self._origins.issuperset(origins):
            return 403
        return self._rules.refuse(scope, headers)

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])  # ASGI lets an app leave them out
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        return send_with_headers


def json_depth(content: bytes) -> int:
    """Levels of nested brackets outside of strings; for more than 500,000 brackets, their number."""
    depth = deepest = 0
    if (count := content.count(b"[") + content.count(b"{")) > _MOST_BRACKETS:
        return count
    if count <= MOST_JSON_DEPTH:  # the usual case
        return 0
    for bracket in _JSON_STRING.sub(b"", content).translate(None, _BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Receive function that returns the body as one message, then the messages after it."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def server_settings() -> dict[str, Any]:
    """Settings of uvicorn: bounds of connections and headers, and no access log, which would contain tokens."""
    return {
        "http": _bounded_protocol(),
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "h11_max_incomplete_event_size": MOST_HEADER_BYTES,
    }


def _bounded_protocol() -> Any:
    """Protocol class of uvicorn that closes connections beyond a limit, and connections whose header takes too long."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > MOST_CONNECTIONS:
                transport.abort()
            else:
                self._await_header()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_header()

        def _await_header(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(HEADER_TIMEOUT_S, self._close_idle)

        def _close_idle(self) -> None:
            is_open = self in self.connections  # a web socket has another protocol by now
            if is_open and getattr(self.cycle, "response_complete", True):  # None before the first request
                self.transport.close()

    return BoundedProtocol

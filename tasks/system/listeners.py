"""What listens on loopback: who may ask, how many at once, how slowly and how much."""

import asyncio
import base64
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

MOST_CONNECTIONS = 512
HEADER_TIMEOUT_S = 5.0  # until a request's header, or a password, is complete
BODY_TIMEOUT_S = 60.0
MOST_BODY_BYTES = 2**26

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def is_password(given: str, expected: str) -> bool:
    """Whether both are the same; how long that takes tells nothing about where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


class Guard:
    """ASGI application in front of another one, for programs of this person alone.

    Refuses other hosts' names (a web page whose name was rebound to this address), other origins, requests without the
    password, and bodies that are too large or too slow. A request is closed with its refusal. Web sockets send the
    password in their first message, to the other application.

    auth: USER:PASSWORD. open_paths: paths that anybody may get, without a password.
    """

    def __init__(self, app: App, port: int, auth: str, open_paths: tuple[str, ...] = ()) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._password = f"Basic {base64.b64encode(auth.encode()).decode()}"
        self._open_paths = open_paths

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        status = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if status is not None:
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, _with_timely_start(receive), send)
            return
        content = b""
        if status is None:
            status, content = await _body(headers, receive)
        if status is None:
            await self._app(scope, _replayed(content, receive), send)
        else:
            await _refuse(send, status)

    def _refusal(self, scope: Message, headers: dict[str, list[str]]) -> int | None:
        """HTTP status of a request that is refused before its body is read; None if it is not."""
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421
        if any(origin.lower().removeprefix("http://") not in self._hosts for origin in origins):
            return 403
        if scope["type"] == "websocket" or (scope["method"] == "GET" and scope["path"] in self._open_paths):
            return None
        return None if is_password("".join(headers.get("authorization", [])), self._password) else 401


async def _body(headers: dict[str, list[str]], receive: Receive) -> tuple[int | None, bytes]:
    """HTTP status of a body that is refused, None if it is not; and the whole body."""
    with suppress(ValueError):
        if any(int(length) > MOST_BODY_BYTES for length in headers.get("content-length", [])):
            return 413, b""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while (message := await receive())["type"] == "http.request":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY_BYTES:
                    return 413, b""
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        return 408, b""
    return None, b"".join(parts)


def _replayed(content: bytes, receive: Receive) -> Receive:
    """The body as one message, then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def _with_timely_start(receive: Receive) -> Receive:
    """A web socket that ends if its first message, which holds the password, does not come in time."""
    first_count = 2  # the connection itself, and the message

    async def next_message() -> Message:
        nonlocal first_count
        first_count -= 1
        if first_count < 0:
            return await receive()
        try:
            async with asyncio.timeout(HEADER_TIMEOUT_S):
                return await receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": 1008}

    return next_message


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def bounded_protocol() -> Any:
    """Protocol class of uvicorn that closes connections without a whole header in time, and those that are too many."""
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

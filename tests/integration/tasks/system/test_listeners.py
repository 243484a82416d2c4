"""Attacks on all that listens: other hosts and origins, strangers, slow, large and deep requests, connections."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.serving.rating_page import COOKIE, rating_app
from gradebook.tasks.serving.rewards_api import RewardsApp, rewards_app
from gradebook.tasks.system import listeners
from gradebook.tasks.system.listeners import Tokens, hosts_of, is_password, json_depth, server_settings
from tests.support.served_ratings import RUN, rated_run

AUTH = "ann:secret"
FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
DEEP = b"[" * 101 + b"]" * 101
EMPTY, EVIL = "Content-Length: 0", "http://evil.example"
CLOSED = 0  # without an answer


@dataclass(frozen=True)
class Listener:
    """Something that listens. own: header lines of its owner's own request, beside the host."""

    name: str
    port: int
    own: tuple[str, ...]
    path: str = "/"
    method: str = "POST"

    @property
    def host(self) -> str:
        return f"Host: 127.0.0.1:{self.port}"

    def ask(self, *lines: str, body: bytes = b"", path: str | None = None) -> int:
        """Send a request; returns the status of the answer, `CLOSED` without one."""
        head = "\r\n".join([f"{self.method} {path or self.path} HTTP/1.1", *lines, "Connection: close", "", ""])
        return self.send(head.encode() + body)

    def send(self, content: bytes, *, is_whole: bool = False) -> int:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection, suppress(ConnectionError):
            connection.sendall(content)
            if is_whole:
                connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
            return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else CLOSED
        return CLOSED


@contextmanager
def served(listening: socket.socket, app: Any) -> Iterator[None]:
    settings = uvicorn.Config(app, ws="none", log_config=None, lifespan="off", **server_settings())
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    yield
    server.should_exit = True
    thread.join()


@contextmanager
def rating(folder: Path) -> Iterator[Listener]:
    """The rating page; its owner asks for a sheet."""
    tokens = Tokens()
    with (
        opened_session(rated_run(folder), RUN, queue=Queue.random, count=6, overlap=1) as session,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        port = listening.getsockname()[1]
        with served(listening, rating_app(session, tokens, hosts_of(port), lambda _: None)):
            origin, cookie = f"Origin: http://127.0.0.1:{port}", f"Cookie: {COOKIE}={tokens.issue('anna')}"
            own = Listener("rating", port, (origin, cookie, FORM), "/sheet/1")
            get = f"GET / HTTP/1.1\r\n{own.host}\r\n{cookie}\r\nConnection: close\r\n\r\n"
            assert own.send(get.encode()) == 303  # the first sheet is given
            yield own


@contextmanager
def rewards(_folder: Path) -> Iterator[Listener]:
    """The server of rewards, with a token; its owner's request has no body, which is no JSON."""
    checked = {"id": "short", "description": "?", "method": {"type": "check", "check": "length_words"}}
    checked["method"] = {"type": "check", "check": "length_words", "settings": {"max": 3}}
    with (
        RubricScorer({"id": "r", "version": "1.0.0", "criteria": [checked]}) as scorer,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        port = listening.getsockname()[1]
        with served(listening, rewards_app(RewardsApp(scorer, 60.0, None), hosts_of(port), AUTH)):
            yield Listener("rewards", port, (f"Authorization: Bearer {AUTH}", JSON), "/score")


LISTENERS: dict[str, Callable[[Path], Any]] = {"rating": rating, "rewards": rewards}


@pytest.fixture(params=list(LISTENERS))
def listener(request, tmp_path, monkeypatch) -> Iterator[Listener]:
    for name, most in (("HEADER_TIMEOUT_S", 20), ("MOST_CONNECTIONS", 3)):
        monkeypatch.setattr(listeners, name, most)
    with LISTENERS[request.param](tmp_path) as found:
        yield found


# What is sent in place of an owner's request, and the status: of the rating page, and of rewards.
ATTACKS: dict[str, tuple[Callable[[Listener], int], tuple[int, int]]] = {
    "own": (lambda to: to.ask(to.host, *to.own, EMPTY), (400, 400)),  # 400: a form without fields
    "by name": (lambda to: to.ask(f"Host: LOCALHOST:{to.port}", *to.own, EMPTY), (400, 400)),
    "rebound name": (lambda to: to.ask(f"Host: evil.example:{to.port}", *to.own, EMPTY), (421, 421)),
    "other port": (lambda to: to.ask("Host: 127.0.0.1:1", *to.own, EMPTY), (421, 421)),
    "no host": (lambda to: to.ask(*to.own, EMPTY), (400, 400)),  # by HTTP itself
    "two hosts": (lambda to: to.ask(to.host, to.host, *to.own, EMPTY), (400, 400)),
    "other page": (lambda to: to.ask(to.host, *with_origin(to, EVIL), EMPTY), (403, 403)),
    "opaque page": (lambda to: to.ask(to.host, *with_origin(to, "null"), EMPTY), (403, 403)),
    "two origins": (lambda to: to.ask(to.host, *to.own, f"Origin: {EVIL}", EMPTY), (403, 403)),
    "stranger": (lambda to: to.ask(to.host, *stranger(to), EMPTY), (403, 401)),
    "wrong secret": (lambda to: to.ask(to.host, *wrong(to), EMPTY), (403, 401)),
    "large for a stranger": (lambda to: to.ask(to.host, *stranger(to), f"Content-Length: {2**40}"), (403, 401)),
    "too large": (lambda to: to.ask(to.host, *to.own, f"Content-Length: {2**26 + 1}"), (413, 413)),
    "deep": (lambda to: to.ask(to.host, *plain(to), JSON, f"Content-Length: {len(DEEP)}", body=DEEP), (400, 400)),
    "two lengths": (lambda to: to.ask(to.host, *to.own, EMPTY, "Content-Length: 5"), (400, 400)),
    "above the root": (lambda to: to.ask(to.host, *to.own, EMPTY, path="/../../etc/passwd"), (404, 404)),
    "above, encoded": (lambda to: to.ask(to.host, *to.own, EMPTY, path="/%2e%2e/etc/passwd"), (404, 404)),
    "endless header": (lambda to: to.send(b"POST / HTTP/1.1\r\nX: " + b"x" * 70_000), (400, 400)),
    "no HTTP": (lambda to: to.send(b"\x16\x03\x01\r\n\r\n"), (400, 400)),
}


def plain(to: Listener) -> list[str]:
    """The owner's lines but the type of the content."""
    return [line for line in to.own if line not in (FORM, JSON)]


def with_origin(to: Listener, origin: str) -> list[str]:
    return [f"Origin: {origin}", *(line for line in to.own if not line.startswith("Origin"))]


def stranger(to: Listener) -> list[str]:
    return [line for line in to.own if not line.startswith(("Authorization", "Cookie"))]


def wrong(to: Listener) -> list[str]:
    return [line[:-1] if line.startswith(("Authorization", "Cookie")) else line for line in to.own]


def test_each_attack_on_each_listener_is_refused(listener):
    seen = {name: attack(listener) for name, (attack, _) in ATTACKS.items()}
    place = [*LISTENERS].index(listener.name)
    assert seen == {name: expected[place] for name, (_, expected) in ATTACKS.items()}


def test_slow_and_endless_requests_are_closed(listener, monkeypatch):
    monkeypatch.setattr(listeners, "BODY_TIMEOUT_S", 0.2)
    assert listener.ask(listener.host, *listener.own, "Content-Length: 10", body=b"half") == 408
    monkeypatch.setattr(listeners, "BODY_TIMEOUT_S", 20)
    head = "\r\n".join([f"POST {listener.path} HTTP/1.1", listener.host, *listener.own, "Content-Length: 0", "", ""])
    with socket.create_connection(("127.0.0.1", listener.port), timeout=20) as connection:
        for _ in range(2):  # a connection is used again
            connection.sendall(head.encode())
            assert connection.recv(10_000)
            monkeypatch.setattr(listeners, "HEADER_TIMEOUT_S", 0.2)
        with suppress(ConnectionError):
            while connection.recv(10_000):  # the rest of the answer, and then the end
                pass
    assert listener.send(b"POST / HTTP/1.1\r\nHost:") == CLOSED  # and no more


def test_connections_beyond_the_limit_are_closed_at_once_and_others_go_on(listener):
    held = [socket.create_connection(("127.0.0.1", listener.port), timeout=20) for _ in range(3)]
    for connection in held:
        connection.sendall(f"POST {listener.path} HTTP/1.1\r\n".encode())
    assert listener.send(b"") == CLOSED
    for connection in held:
        connection.sendall("\r\n".join([listener.host, *listener.own, "Content-Length: 0", "", ""]).encode())
        assert connection.recv(10_000).startswith(b"HTTP/1.1 ")
        connection.close()


def test_bodies_that_are_too_many_at_once_are_refused_and_their_memory_is_free_again(listener, monkeypatch):
    monkeypatch.setattr(listeners, "MOST_HELD_BYTES", 1_000)
    head = [f"POST {listener.path} HTTP/1.1", listener.host, *listener.own, "Connection: close"]

    def begin(size: int, *, is_whole: bool) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", listener.port), timeout=20)
        length = f"Content-Length: {size if is_whole else size + 1}"
        connection.sendall("\r\n".join([*head, length, "", ""]).encode() + b"x" * size)
        return connection

    for _ in range(3):
        with begin(600, is_whole=False) as held:
            time.sleep(0.1)  # until it is read
            with begin(600, is_whole=True) as other:
                assert other.recv(20).startswith(b"HTTP/1.1 503 ")
            held.sendall(b"x")
            assert held.recv(20)[9:12] in (b"200", b"400")


def test_passwords_of_any_letters_are_compared():
    assert is_password("é\ud800", "é\ud800")
    assert not is_password("a", "b")
    assert not is_password("", "b")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (DEEP, 101),
        (b'{"a":' * 150 + b"1" + b"}" * 150, 150),
        (b"[" + b"[]," * 200 + b"[]]", 2),
        (b'["' + b"[" * 200 + b'\\"[["]', 1),
        (b'"' + b'\\"[' * 100_000, 0),
    ],
)
def test_the_depth_of_json_leaves_texts_out(content, expected):
    assert json_depth(content) == expected

"""Access and bounds of what listens: other hosts and origins, passwords, slow and large requests, connection counts."""

import asyncio
import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from gradebook.tasks.system import listeners
from gradebook.tasks.system.listeners import Guard, bounded_protocol, is_password

AUTH = "ann:secret"
BASIC = base64.b64encode(AUTH.encode()).decode()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the size of the body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
    await send({"type": "http.response.body", "body": f"{len(body):08d}".encode()})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a guarded application that takes 3 connections."""
    for name, most in (("HEADER_TIMEOUT_S", 20), ("MOST_CONNECTIONS", 3), ("MOST_BODY_BYTES", 1000)):
        monkeypatch.setattr(listeners, name, most)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        bound = listening.getsockname()[1]
        guard = Guard(echo, bound, AUTH, ("/health",))
        settings = uvicorn.Config(guard, http=bounded_protocol(), ws="none", log_config=None, lifespan="off")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        yield bound
        server.should_exit = True
        thread.join()


def ask(port: int, *lines: str, body: bytes = b"", start: str = "POST /") -> bytes:
    """All that comes back until the connection is closed; lines: of the header, beside host and password."""
    head = "\r\n".join([f"{start} HTTP/1.1", *lines, "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as answer:
            return answer.read()


def answered(connection: socket.socket, body: bytes) -> None:
    """Read until that body has come; the connection stays open."""
    seen = b""
    while body not in seen:
        part = connection.recv(1000)
        assert part, seen
        seen += part


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_who_asks_by_another_name_or_from_another_page_or_without_the_password_is_refused(port):
    host, password = f"Host: 127.0.0.1:{port}", f"Authorization: Basic {BASIC}"
    asked = {
        "own": (200, [host, password]),
        "localhost": (200, [f"Host: localhost:{port}", password]),
        "own origin": (200, [host, password, f"Origin: http://127.0.0.1:{port}"]),
        "rebound name": (421, [f"Host: evil.example:{port}", password]),
        "other port": (421, ["Host: 127.0.0.1:1", password]),
        "two hosts": (421, [host, f"Host: localhost:{port}", password]),
        "other page": (403, [host, password, "Origin: http://evil.example"]),
        "opaque page": (403, [host, password, "Origin: null"]),
        "other scheme": (403, [host, password, f"Origin: https://127.0.0.1:{port}"]),
        "no password": (401, [host]),
        "wrong password": (401, [host, f"Authorization: Basic {BASIC[:-1]}"]),
        "too large": (413, [host, password, "Content-Length: 1001"]),
    }
    seen = {}
    for name, (_, lines) in asked.items():
        size = [] if "Content-Length" in lines[-1] else ["Content-Length: 0"]
        answer = ask(port, *lines, *size, "Connection: close")
        # HTTP itself knows no request with two hosts
        seen[name] = 421 if name == "two hosts" and status(answer) == 400 else status(answer)
    assert seen == {name: expected for name, (expected, _) in asked.items()}


def test_an_open_path_needs_no_password_but_the_host(port):
    assert b"200 OK" in ask(port, f"Host: 127.0.0.1:{port}", "Connection: close", start="GET /health")
    assert status(ask(port, "Host: evil.example", "Connection: close", start="GET /health")) == 421
    assert status(ask(port, f"Host: 127.0.0.1:{port}", "Connection: close", start="POST /health")) == 401


def test_slow_and_endless_requests_are_closed(port, monkeypatch):
    host, password = f"Host: 127.0.0.1:{port}", f"Authorization: Basic {BASIC}"
    chunk = b"40\r\n" + b"x" * 64 + b"\r\n"
    assert status(ask(port, host, password, "Transfer-Encoding: chunked", body=chunk * 17)) == 413
    monkeypatch.setattr(listeners, "BODY_TIMEOUT_S", 0.2)
    assert status(ask(port, host, password, "Content-Length: 10", body=b"half")) == 408
    whole = f"POST / HTTP/1.1\r\n{host}\r\n{password}\r\nContent-Length: 3\r\n\r\nabc".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for _ in range(2):  # a connection is used again
            connection.sendall(whole)
            answered(connection, b"00000003")
            monkeypatch.setattr(listeners, "HEADER_TIMEOUT_S", 0.2)
        with suppress(ConnectionError):
            connection.sendall(b"POST")
            assert connection.recv(100) == b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost:")  # and no more
        assert connection.recv(100) == b""


def test_connections_beyond_the_limit_are_closed_at_once_and_others_go_on(port):
    host, password = f"Host: 127.0.0.1:{port}", f"Authorization: Basic {BASIC}"
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]
    for connection in held:
        connection.sendall(b"POST / HTTP/1.1\r\n")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as fourth, suppress(ConnectionResetError):
        assert fourth.recv(1) == b""
    for connection in held:
        connection.sendall(f"{host}\r\n{password}\r\nContent-Length: 0\r\n\r\n".encode())
        answered(connection, b"00000000")
        connection.close()


def test_passwords_of_any_letters_are_compared():
    assert is_password("é\ud800", "é\ud800")
    assert not is_password("a", "b")
    assert not is_password("", "b")

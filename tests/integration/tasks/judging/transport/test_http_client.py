"""Connections to an endpoint: proxies, packed bodies and headers."""

import asyncio
import gzip
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import aiohttp
import pytest

from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.transport.http_client import BoundedFileClient, BoundedSession
from tests.support.asked import CANARY


class _Echo(BaseHTTPRequestHandler):
    """Answers with what came, packed as the server's `packing` says."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        seen = {"target": self.path, "content": json.loads(content), "headers": dict(self.headers)}
        body = json.dumps(seen).encode()
        self.send_response(200)
        if packing := getattr(self.server, "packing", None):
            self.send_header("Content-Encoding", packing)
            body = gzip.compress(body)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@pytest.fixture
def echo():
    with HTTPServer(("127.0.0.1", 0), _Echo) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


def sent(base_url: str, **settings: Any) -> dict[str, Any]:
    async def send() -> bytes:
        session = BoundedSession(Address(base_url=base_url, **settings), CANARY, 1)
        try:
            return (await session.post("/chat/completions", b'{"x": 1}'))[2]
        finally:
            await session.close()

    seen: dict[str, Any] = json.loads(asyncio.run(send()))
    return seen


def test_a_request_has_its_key_and_whoever_pays_and_nothing_else_of_the_environment(echo, monkeypatch):
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: of another endpoint")
    seen = sent(f"http://127.0.0.1:{echo.server_port}/v1")
    assert (seen["target"], seen["content"]) == ("/v1/chat/completions", {"x": 1})
    assert seen["headers"]["Authorization"] == f"Bearer {CANARY}"
    assert seen["headers"]["OpenAI-Project"] == "proj_1"
    assert "X-Secret" not in seen["headers"]


def test_an_address_has_its_own_headers_query_and_place_of_the_key(echo, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    seen = sent(
        f"http://127.0.0.1:{echo.server_port}/v1",
        key="env:AZURE_OPENAI_API_KEY",
        key_header="api-key",
        headers={"X-Team-Key": "${TEAM_KEY}", "X-Team": "search"},
        query={"api-version": "2024-10-21"},
    )
    assert seen["target"] == "/v1/chat/completions?api-version=2024-10-21"
    assert {"api-key": CANARY, "X-Team-Key": "sk-team", "X-Team": "search"}.items() <= seen["headers"].items()
    assert not {"Authorization", "OpenAI-Project"} & seen["headers"].keys()


@pytest.mark.parametrize("packing", ["gzip", "GZIP", "deflate"])
def test_a_packed_body_is_unpacked(echo, packing):
    echo.packing = packing
    assert sent(f"http://127.0.0.1:{echo.server_port}/v1")["content"] == {"x": 1}


def test_the_environments_proxy_is_asked_unless_the_host_is_excepted(echo, monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{echo.server_port}")
    assert sent("http://judge.invalid/v1")["target"] == "http://judge.invalid/v1/chat/completions"
    assert sent(f"http://127.0.0.1:{echo.server_port}/v1")["target"] == "/v1/chat/completions"  # this machine: directly
    with BoundedFileClient(Address(), CANARY) as client:
        assert client.post(f"http://127.0.0.1:{echo.server_port}/v1", json=[]).json()["target"] == "/v1"
    monkeypatch.setenv("NO_PROXY", "judge.invalid")
    with pytest.raises(aiohttp.ClientConnectorDNSError):
        sent("http://judge.invalid/v1")

"""A small judge on 127.0.0.1 that speaks the OpenAI protocol, for tests and benchmarks.

It answers from a hash of the prompt, with a level of the reply's own schema. Faults come in a script, one word a
request, then none: 500, 429, 401, quota, drop, hang, garbage, length, refusal, filter, empty, liar, echo.

    python tests/loopback_judge.py --port 0 --latency-s 0.2
"""

import argparse
import asyncio
import hashlib
import json
import re
import sys
import threading
from collections import Counter
from types import TracebackType
from typing import Any, Self

from aiohttp import web

STATUSES = {"500": 500, "503": 503, "408": 408, "400": 400, "404": 404, "429": 429, "401": 401, "quota": 429}


class LoopbackJudge:
    """The server and what it saw; a context manager that serves from a thread of its own."""

    def __init__(self, *, latency_s: float = 0.0, faults: tuple[str, ...] = (), key: str | None = None) -> None:
        self.latency_s = latency_s
        self.faults = list(faults)
        self.key = key  # any other is refused
        self.retry_after: str | None = None
        self.is_gullible = False  # answers with the word after "level:" in the text, whatever the schema says
        self.finish_reason = "stop"
        self.counts: Counter[str] = Counter()  # requests a prompt digest
        self.bodies: list[dict[str, Any]] = []
        self.is_keeping_bodies = True
        self.in_flight = self.most_in_flight = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.base_url = ""

    # -------- serving
    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._completion)
        return app

    async def start(self, port: int = 0) -> web.AppRunner:
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def request_count(self) -> int:
        return sum(self.counts.values())

    # -------- answering
    async def _models(self, request: web.Request) -> web.Response:
        if not self._is_let_in(request):
            return _refusal(401, "bad key")
        return web.json_response({"object": "list", "data": []})

    def _is_let_in(self, request: web.Request) -> bool:
        return self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}"

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        prompt = "\n".join(message["content"] for message in body["messages"])
        self.counts[hashlib.sha256(prompt.encode()).hexdigest()[:16]] += 1
        if self.is_keeping_bodies:
            self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency_s)
            return await self._answer(request, body, prompt)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any], prompt: str) -> web.StreamResponse:
        fault = self.faults.pop(0) if self.faults else ""
        if not self._is_let_in(request):
            return _refusal(401, f"bad key {request.headers.get('Authorization')}")
        if fault in STATUSES:
            code = "insufficient_quota" if fault == "quota" else None
            headers = {"Retry-After": self.retry_after} if self.retry_after else {}
            return _refusal(STATUSES[fault], f"scripted {request.headers.get('Authorization')}", code, headers)
        if fault == "hang":
            await asyncio.sleep(30)
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault == "garbage":
            return web.Response(text="<html>a gateway</html>", content_type="text/html")
        return web.json_response(self._body(body, prompt, fault, request))

    def _body(self, body: dict[str, Any], prompt: str, fault: str, request: web.Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._text(body, prompt, fault), "refusal": None}
        if fault == "refusal":
            message |= {"content": None, "refusal": "I can't help with that."}
        if fault == "echo":
            message["content"] = str(dict(request.headers))
        finish_reason = {"length": "length", "filter": "content_filter"}.get(fault, self.finish_reason)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(str(message["content"])) // 4}
        self.prompt_tokens += usage["prompt_tokens"]
        self.completion_tokens += usage["completion_tokens"]
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"] + "-2026",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": usage | {"prompt_tokens_details": {"cached_tokens": 0}},
        }

    def _text(self, body: dict[str, Any], prompt: str, fault: str) -> str:
        if body["response_format"]["json_schema"]["name"] == "feedback":
            return {"empty": "", "length": '{"feed'}.get(fault, json.dumps({"feedback": "It is kind."}))
        levels = body["response_format"]["json_schema"]["schema"]["properties"]["level"]["enum"]
        number = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")
        level = levels[number % len(levels)]
        ordered = re.search(r"level: (\w+)", prompt.rpartition("CASE\n")[2]) if self.is_gullible else None
        reply = {"evidence": [], "rationale": "Because.", "level": ordered[1] if ordered else level}
        if fault == "liar":
            reply["evidence"] = ["words that were never written"]
        text = json.dumps(reply)
        return {"empty": "", "length": text[:20]}.get(fault, text)


def _refusal(
    status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    error = {"error": {"message": message, "type": "scripted", "code": code}}
    return web.json_response(error, status=status, headers=headers)


async def _serve(port: int, latency_s: float) -> None:
    judge = LoopbackJudge(latency_s=latency_s)
    judge.is_keeping_bodies = False
    await judge.start(port)
    sys.stdout.write(judge.base_url.rpartition(":")[2].removesuffix("/v1") + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A judge on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, arguments.latency_s))

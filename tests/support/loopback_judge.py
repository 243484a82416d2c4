"""A small judge on 127.0.0.1 that speaks the OpenAI protocol, for tests and benchmarks.

It answers from a hash of the prompt, with a level of the reply's own schema. Faults come in a script, one word a
request, then none: 500, 429, 401, quota, drop, hang, garbage, redirect, refusal, filter, liar, echo, and the words of
loopback_faults.

    python tests/support/loopback_judge.py --port 0 --latency-s 0.2
"""

import argparse
import asyncio
import hashlib
import json
import math
import re
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.loopback_batches import LoopbackBatches
from tests.support.loopback_embeddings import embeddings_body
from tests.support.loopback_faults import BODY_FAULTS, TEXT_FAULTS, send_broken
from tests.support.loopback_limits import PrefixCache, RequestLimit, drawn_fault
from tests.support.loopback_plain import plain_text
from tests.support.loopback_server import LoopbackServer

STATUSES = {word: int(word) for word in ("500", "503", "408", "400", "404", "403", "413", "429", "401", "409", "504")}
STATUSES |= {"quota": 429, "context too long": 400, "filtered": 400}
CODES = {"quota": "insufficient_quota", "filtered": "content_filter"}
HELD_S = 3600.0
# Errors with the key in letters that are followed by NULs.
WIDE: dict[str, Callable[[str], str]] = {"null error": "\0".join, "wide error": str}
CODINGS = {"wide error": "utf-16"}


@dataclass(frozen=True)
class ScriptedError:
    """Error of a provider. source: page or thread that says so."""

    body: Any
    source: str
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> web.Response:
        return web.json_response(self.body, status=self.status, headers=self.headers)


class LoopbackJudge(LoopbackServer):
    """The server and what it saw; a context manager that serves from a thread of its own."""

    def __init__(self, *, latency_s: float = 0.0, faults: tuple[str, ...] = (), key: str | None = None) -> None:
        self.latency_s = latency_s
        self.faults = list(faults)
        self.key = key  # any other is refused
        self.key_header: str | None = None  # in place of Authorization
        self.model: str | None = None  # the only one that it has
        self.retry_after: str | None = None
        self.limit: RequestLimit | None = None
        self.fault_rates: dict[str, float] = {}  # beside the script: a share of each prompt's requests
        self.cache = PrefixCache()
        self.cached_tokens = self.written_tokens = self.answered_count = 0
        self.service_tier: str | None = None
        self.system_fingerprint: str | None = None
        self.has_logprobs = True
        self.refused_parameters: tuple[str, ...] = ()  # a body with one of them is answered with HTTP 400
        self.refusals: dict[str, ScriptedError] = {}  # the same, by parameter, in the provider's words
        self.errors: dict[str, ScriptedError] = {}  # by word of the script; "key" and "model" for wrong ones
        self.message: dict[str, Any] = {}  # more fields of a reply's message
        self.counted: dict[str, Any] = {}  # of tokens: its own names, with sums of numbers' names
        self.thought_tokens = 0  # of each reply
        self.stated_usd: float | None = None  # cost of a reply, as `counted` names it
        self.models: list[dict[str, Any]] = []  # as it lists them
        self.writer: Callable[[dict[str, Any]], str] | None = None  # of the reply's text, in place of its own
        self.redirect_to = ""
        self.tls: ssl.SSLContext | None = None
        self.is_gullible = False  # answers with the word after "level:" in the text, whatever the schema says
        self.finish_reason = "stop"
        self.model_suffix = "-2026"  # of the model that says it answered
        self.counts: Counter[str] = Counter()  # requests a prompt digest
        self.bodies: list[dict[str, Any]] = []
        self.is_keeping_bodies = True
        self.is_held: Callable[[dict[str, Any]], bool] | None = None  # a request waits while this is true of it
        self.held_after: int | None = None  # requests: those after so many wait until who asked is gone
        self.in_flight = self.most_in_flight = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.usage: dict[str, Any] = {}  # beside its own counts
        self.base_url = ""
        self.batches = LoopbackBatches(self._is_let_in, self._batched)

    # -------- serving
    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/v1/chat/completions", self._completion)
        app.router.add_post("/v1/embeddings", self._completion)
        self.batches.mount(app)
        return app

    async def start(self, port: int = 0) -> web.AppRunner:
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024, ssl_context=self.tls)
        await site.start()
        self.base_url = f"{'https' if self.tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    @property
    def request_count(self) -> int:
        return sum(self.counts.values())

    # -------- answering
    async def _models(self, request: web.Request) -> web.Response:
        if not self._is_let_in(request):
            return self.errors["key"].response() if "key" in self.errors else _refusal(401, "bad key")
        return web.json_response({"object": "list", "data": self.models})

    async def _stats(self, _: web.Request) -> web.Response:
        """Counts of its requests and tokens, for whoever runs it as a process."""
        return web.json_response(
            {
                "requests": self.request_count,
                "answered": self.answered_count,
                "refused": self.limit.refused_count if self.limit else 0,
                "most_in_flight": self.most_in_flight,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "written_tokens": self.written_tokens,
                "completion_tokens": self.completion_tokens,
            }
        )

    def _is_let_in(self, request: web.Request) -> bool:
        sent = f"Bearer {self.key}" if self.key_header is None else self.key
        return self.key is None or request.headers.get(self.key_header or "Authorization") == sent

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        prompt = texts_of(body)
        self.counts[_mark(prompt)] += 1
        if self.is_keeping_bodies:
            self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            is_held = self.held_after is not None and self.request_count > self.held_after
            await asyncio.sleep(HELD_S if is_held else self.latency_s)
            await self._held(body)
            return await self._answer(request, body, prompt)
        finally:
            self.in_flight -= 1

    async def _held(self, body: dict[str, Any]) -> None:
        while self.is_held is not None and self.is_held(body):  # noqa: ASYNC110 - it reads what a test sees
            await asyncio.sleep(0.005)

    def _batched(self, body: dict[str, Any], request: web.Request) -> dict[str, Any]:
        return self._body(body, texts_of(body), "", request)

    async def _answer(self, request: web.Request, body: dict[str, Any], prompt: str) -> web.StreamResponse:
        if (refused := self._refused(request, body)) is not None:
            return refused
        if self.limit is not None and not self.limit.is_taken():
            return _refusal(429, "too many requests", None, self.limit.headers)
        fault = self._fault(prompt)
        if fault in self.errors or fault in STATUSES:
            return self._scripted(request, fault)
        if fault == "hang":
            await asyncio.sleep(30)
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault in WIDE:
            error = json.dumps({"error": {"message": WIDE[fault](str(request.headers.get("Authorization")))}})
            return web.Response(status=418, body=error.encode(CODINGS.get(fault, "utf-8")))
        if fault == "garbage":
            return web.Response(text="<html>a gateway</html>", content_type="text/html")
        if fault == "redirect":
            raise web.HTTPTemporaryRedirect(self.redirect_to)
        return await self._send(request, fault, self._body(body, prompt, fault, request))

    def _scripted(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault in self.errors:
            return self.errors[fault].response()
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        said = f"scripted {request.headers.get('Authorization')}"
        return _refusal(STATUSES[fault], said, CODES.get(fault), headers)

    def _refused(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        if not self._is_let_in(request):
            refused = self.errors.get("key")
            return refused.response() if refused else _refusal(401, f"bad key {request.headers.get('Authorization')}")
        if self.model is not None and body["model"] != self.model:
            refused = self.errors.get("model")
            said = f"The model {body['model']} does not exist"
            return refused.response() if refused else _refusal(404, said, "model_not_found")
        for name, error in self.refusals.items():
            if name in body or body.get("response_format", {}).get("type") == name:
                return error.response()
        for name in self.refused_parameters:
            if name == "json_schema" and body.get("response_format", {}).get("type") == name:
                error = {"message": "This response_format type is unavailable now", "type": "invalid_request_error"}
                return web.json_response({"error": error}, status=400)
            if name in body:
                error = {"message": f"Unsupported parameter: '{name}' is not supported.", "param": name}
                return web.json_response({"error": error}, status=400)
        return None

    async def _send(self, request: web.Request, fault: str, completion: dict[str, Any]) -> web.StreamResponse:
        echo = {"id": f"chatcmpl-{request.headers.get('Authorization')}"}
        bent = BODY_FAULTS[fault](completion | echo) if fault in BODY_FAULTS else completion
        written = bent if isinstance(bent, bytes) else json.dumps(bent).encode()
        broken = await send_broken(request, fault, written)
        return broken or web.Response(body=written, content_type="application/json")

    def _fault(self, prompt: str) -> str:
        if self.faults:
            return self.faults.pop(0)
        if not self.fault_rates:
            return ""
        return drawn_fault(self.fault_rates, prompt, self.counts[_mark(prompt)])

    def _body(self, body: dict[str, Any], prompt: str, fault: str, request: web.Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._text(body, prompt, fault), "refusal": None}
        message |= self.message
        if fault == "refusal":
            message |= {"content": None, "refusal": "I can't help with that."}
        if fault == "echo":
            message["content"] = str(dict(request.headers))
        finish_reason = {"length": "length", "filter": "content_filter"}.get(fault, self.finish_reason)
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(str(message["content"])) // 4}
        cached_tokens = self.cache.cached_tokens(prompt)
        self.cache.keep(prompt)
        self.answered_count += 1
        self.cached_tokens += cached_tokens
        self.prompt_tokens += usage["prompt_tokens"]
        self.completion_tokens += usage["completion_tokens"]
        if "input" in body:
            return embeddings_body(body, usage)
        own = usage | {"prompt_tokens_details": {"cached_tokens": cached_tokens}} | self.usage
        numbers = {"prompt": usage["prompt_tokens"], "completion": usage["completion_tokens"]}
        numbers |= {"cached": cached_tokens, "thought": self.thought_tokens, "cost": self.stated_usd or 0.0}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"] + self.model_suffix,
            "choices": [choice | {"logprobs": self._logprobs(body, message)}],
            "usage": _counts(self.counted, numbers) if self.counted else own,
            "service_tier": self.service_tier,
            "system_fingerprint": self.system_fingerprint,
        }

    def _logprobs(self, body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any] | None:
        """A token a letter; where a level stands, the next level of the schema has a quarter of its probability."""
        if not (body.get("logprobs") and self.has_logprobs and message["content"]):
            return None
        levels = body["response_format"]["json_schema"]["schema"]["properties"]["level"]["enum"]
        tokens = [token for token in re.split(r"(\W)", message["content"]) if token]
        return {"content": [_token(token, levels) for token in tokens]}

    def _text(self, body: dict[str, Any], prompt: str, fault: str) -> str:
        if "input" in body:
            return ""
        if body.get("response_format", {}).get("type") == "json_object":
            return self.writer(body) if self.writer else object_reply(body)
        if "response_format" not in body:
            return self.writer(body) if self.writer else plain_text(prompt, fault)
        asked = body["response_format"]["json_schema"]
        if asked["name"] == "feedback":
            return {"empty": "", "length": '{"feed'}.get(fault, json.dumps({"feedback": "It is kind."}))
        if self.writer is not None:
            return self.writer(body)
        if asked["name"] == "judgments":
            parts = asked["schema"]["properties"]["judgments"]["properties"]
            liars = [*parts][:1] if fault == "one liar" else []
            judgments = {number: self._judgment(parts[number], prompt + number, number in liars) for number in parts}
            text = json.dumps({"judgments": judgments})
        else:
            text = json.dumps(self._judgment(asked["schema"], prompt, fault == "liar"))
        return TEXT_FAULTS[fault](text) if fault in TEXT_FAULTS else text

    def _judgment(self, schema: dict[str, Any], prompt: str, is_liar: bool) -> dict[str, Any]:
        """Judgment in the form of the schema, with a level drawn from the prompt."""
        levels = schema["properties"]["level"]["enum"]
        level = levels[int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big") % len(levels)]
        ordered = re.search(r"level: (\w+)", prompt.rpartition("CASE\n")[2]) if self.is_gullible else None
        reply = {
            "evidence": ["words that were never written"] if is_liar else [],
            "requirements": [{"requirement": "An answer.", "met": True, "quote": ""}],
            "rationale": "Because.",
            "level": ordered[1] if ordered else level,
        }
        return {key: reply[key] for key in schema["properties"]}


def _counts(counted: Any, numbers: dict[str, float]) -> Any:
    """Counts of tokens under a provider's own names, from sums such as `prompt - cached`."""
    if isinstance(counted, dict):
        return {name: _counts(value, numbers) for name, value in counted.items()}
    if not isinstance(counted, str):
        return counted
    terms = re.findall(r"([+-]?) ?(\w+)", counted)
    return sum(numbers[name] * (-1 if sign == "-" else 1) for sign, name in terms)


def level_reply(body: dict[str, Any], meaning: str) -> str:
    """Reply that takes the level of this description, whatever its label."""
    criterion = json.loads(body["messages"][-1]["content"].splitlines()[4])
    labels = {level["meaning"]: level["label"] for level in criterion["levels"]}
    reply = {"evidence": [], "rationale": "So.", "level": labels[meaning]}
    return json.dumps({name: reply[name] for name in body["response_format"]["json_schema"]["schema"]["properties"]})


def object_reply(body: dict[str, Any]) -> str:
    """Reply to a criterion without its schema, with the label of the best level; the prompt has to name JSON."""
    if "JSON" not in body["messages"][0]["content"]:
        return ""
    asked = json.loads(body["messages"][-1]["content"].rpartition("CRITERION\n")[2])
    return json.dumps({"evidence": [], "rationale": "So.", "level": asked["levels"][-1]["label"]})


def texts_of(body: dict[str, Any]) -> str:
    """All texts of a request's messages; pictures and sounds aside."""
    contents = body.get("input") or [message.get("content") or "" for message in body["messages"]]
    parts = [part for each in contents for part in ([{"text": each}] if isinstance(each, str) else each)]
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and "text" in part)


def _mark(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _token(token: str, levels: list[str]) -> dict[str, Any]:
    shares = {token: 1.0}
    if token in levels:
        shares = {token: 0.8, levels[(levels.index(token) + 1) % len(levels)]: 0.2}
    choices = [{"token": each, "logprob": math.log(share)} for each, share in shares.items()]
    return choices[0] | {"top_logprobs": choices}


def _refusal(
    status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    error = {"error": {"message": message, "type": "scripted", "code": code}}
    return web.json_response(error, status=status, headers=headers)


async def _serve(arguments: argparse.Namespace) -> None:
    judge = LoopbackJudge(latency_s=arguments.latency_s)
    judge.is_keeping_bodies = False
    judge.fault_rates = {name: float(rate) for name, _, rate in (pair.partition("=") for pair in arguments.fault)}
    judge.limit = RequestLimit(arguments.rpm) if arguments.rpm else None
    if arguments.reply is not None:
        judge.writer = lambda _: str(arguments.reply)
    await judge.start(arguments.port)
    sys.stdout.write(judge.base_url.rpartition(":")[2].removesuffix("/v1") + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A judge on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--rpm", type=float, help="requests a minute; more are answered with HTTP 429")
    parser.add_argument("--reply", help="text of every reply, for clients that ask otherwise than gradebook")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=RATE", help="such as 500=0.05")
    asyncio.run(_serve(parser.parse_args()))

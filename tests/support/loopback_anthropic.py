"""A small judge on 127.0.0.1 that speaks Anthropic's Messages: it refuses what that refuses, and counts its cache.

It answers as `LoopbackJudge` does, from a hash of the prompt. Faults in its script: 529, 500, 429, credit, spend, long,
refusal, filter, length, echo, drop, hang and garbage. What is refused, and in which words, is from
https://platform.claude.com/docs (errors, structured outputs, adaptive thinking, prompt caching) as of November 2026.

    python tests/support/loopback_anthropic.py --port 0 --latency-s 0.2
"""

import argparse
import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.loopback_judge import LoopbackJudge, texts_of
from tests.support.loopback_messages_batches import LoopbackMessageBatches

# Parameters of a request, and those of its parts that take no others.
PARAMETERS = frozenset(
    {"model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream"}
    | {"thinking", "output_config", "tools", "tool_choice", "service_tier", "metadata", "cache_control"}
)
BLOCKS = frozenset({"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})
MOST_TOKENS, MOST_MARKS, LEAST_CACHED_TOKENS, CHARACTERS_PER_TOKEN = 64_000, 4, 1_024, 4
CURRENT = re.compile(r"claude-(sonnet|opus|haiku)-[5-9]|claude-(fable|mythos)")  # they think, and take no temperature
EARLY = re.compile(r"claude-(3|opus-4-0|sonnet-4-0)")  # without structured output
THOUGHT_TOKENS = 60
ERRORS = {
    "529": (529, "overloaded_error", "Overloaded"),
    "500": (500, "api_error", "Internal server error"),
    "429": (429, "rate_limit_error", "This request would exceed your organization's rate limit"),
    "credit": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "spend": (429, "rate_limit_error", "You have reached the monthly spend limit of your usage tier."),
    "long": (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    "filter": (400, "invalid_request_error", "Output blocked by content filtering policy"),
}


class LoopbackAnthropic(LoopbackJudge):
    """The server and what it saw, as `LoopbackJudge`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.limit_headers: dict[str, str] = {}
        self.written: set[bytes] = set()  # prefixes in the cache
        self.usages: list[dict[str, int]] = []
        self.batches = LoopbackMessageBatches(lambda request: self._is_refused_key(request) is None, self._batched)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/v1/messages", self._completion)
        self.batches.mount(app)
        return app

    def _batched(self, body: dict[str, Any], request: web.Request) -> dict[str, Any]:
        message = self._message(body, texts_of(body), "", request)
        return message | {"usage": message["usage"] | {"service_tier": "batch"}}

    async def _models(self, request: web.Request) -> web.Response:
        refused = self._is_refused_key(request)
        return refused or web.json_response({"data": self.models, "has_more": False})

    def _is_refused_key(self, request: web.Request) -> web.Response | None:
        if "anthropic-version" not in request.headers:
            return _error(400, "invalid_request_error", "anthropic-version: header is required")
        if self.key is not None and request.headers.get("x-api-key") != self.key:
            refused = self.errors.get("key")
            return refused.response() if refused else _error(401, "authentication_error", "invalid x-api-key")
        return None

    async def _answer(self, request: web.Request, body: dict[str, Any], prompt: str) -> web.StreamResponse:
        if (refused := self._is_refused_key(request)) is not None:
            return refused
        if "output_format" in body and "structured-outputs" in request.headers.get("anthropic-beta", ""):
            body["output_config"] = body.get("output_config", {}) | {"format": body.pop("output_format")}
        if self.model is not None and body["model"] != self.model:
            said = f"model: {body['model']}"
            return self.errors["model"].response() if "model" in self.errors else _error(404, "not_found_error", said)
        if (fault := next(refusals(body), None)) is not None:
            return _error(400, "invalid_request_error", fault)
        word = self.faults.pop(0) if self.faults else ""
        if word in self.errors or word in ERRORS:
            return self._failure(word)
        if word == "hang":
            await asyncio.sleep(30)
        if word == "drop" and request.transport is not None:
            request.transport.close()
        if word == "garbage":
            return web.Response(text="<html>a gateway</html>", content_type="text/html")
        return web.json_response(self._message(body, prompt, word, request), headers=self.limit_headers)

    def _failure(self, word: str) -> web.Response:
        if word in self.errors:
            return self.errors[word].response()
        headers = self.limit_headers | ({"retry-after": self.retry_after} if self.retry_after else {})
        details = {"error_code": "enforced_spend_limit_reached"} if word == "spend" else None
        return _error(*ERRORS[word], headers, details)

    def _message(self, body: dict[str, Any], prompt: str, word: str, request: web.Request) -> dict[str, Any]:
        text = self._written(body, prompt)
        if word == "echo":
            text = str(dict(request.headers))
        thinks = body.get("thinking", {}).get("type", "adaptive" if CURRENT.match(body["model"]) else "disabled")
        content = [] if thinks == "disabled" else [{"type": "thinking", "thinking": "", "signature": "EqQB"}]
        if "tools" in body and body["tool_choice"]["type"] == "tool":
            name = body["tool_choice"]["name"]
            content.append({"type": "tool_use", "id": "toolu_1", "name": name, "input": json.loads(text)})
        else:
            content.append({"type": "text", "text": text if word != "length" else text[:5]})
        ending = {"refusal": "refusal", "length": "max_tokens"}.get(word, "tool_use" if "tools" in body else "end_turn")
        output = len(text) // CHARACTERS_PER_TOKEN + THOUGHT_TOKENS * (thinks != "disabled")
        usage = self._counted(body) | {"output_tokens": output}
        self.usages.append(usage)
        self.answered_count += 1
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [] if word == "refusal" else content,
            "stop_reason": ending,
            "stop_sequence": None,
            "usage": usage | {"service_tier": "standard"} | self.usage,
        }

    def _written(self, body: dict[str, Any], prompt: str) -> str:
        """Reply in the form of the schema, with one of the labels that the criterion shows."""
        if self.writer is not None:
            return self.writer(body)
        given = body.get("output_config", {}).get("format", {}).get("schema")
        schema = given or next((tool["input_schema"] for tool in body.get("tools", ())), None)
        if schema is None or "feedback" in schema["properties"]:
            return json.dumps({"feedback": "It is kind."})
        levels = json.loads(prompt.rpartition("CRITERION\n")[2].partition("\n")[0])["levels"]
        drawn = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big") % len(levels)
        reply = {"evidence": [], "rationale": "Because.", "level": levels[drawn]["label"], "flaws": []}
        return json.dumps({name: reply[name] for name in schema["properties"]})

    def _counted(self, body: dict[str, Any]) -> dict[str, int]:
        """Tokens of a prompt: read from the cache, written to it, and neither."""
        prefixes = [*_prefixes(body)]
        marked = [
            (digest, tokens) for digest, tokens, is_marked in prefixes if is_marked and tokens >= LEAST_CACHED_TOKENS
        ]
        total = prefixes[-1][1]
        cached = max((tokens for digest, tokens in marked if digest in self.written), default=0)
        last = marked[-1][1] if marked else 0
        self.written.update(digest for digest, _ in marked)
        self.cached_tokens += cached
        self.written_tokens += max(last - cached, 0)
        self.prompt_tokens += total
        return {
            "input_tokens": total - max(last, cached),
            "cache_creation_input_tokens": max(last - cached, 0),
            "cache_read_input_tokens": cached,
        }


def _prefixes(body: dict[str, Any]) -> Iterator[tuple[bytes, int, bool]]:
    """Beginnings of a prompt, block by block: digest, tokens and whether its end is marked for the cache.

    Tools, the form of the reply and thinking come before all: another one begins another prompt.
    """
    first = [body.get(name) for name in ("tools", "tool_choice", "thinking")]
    first.append(body.get("output_config", {}).get("format"))
    hashed = hashlib.sha256(json.dumps(first, sort_keys=True).encode())
    length = len(json.dumps([each for each in (first[0], first[-1]) if each]))
    system = body.get("system", [])
    blocks = [("system", each) for each in ([{"type": "text", "text": system}] if isinstance(system, str) else system)]
    for turn in body["messages"]:
        content = turn["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [(turn["role"], each) for each in parts]
    for role, block in blocks:
        own = json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
        hashed.update(f"{role} {own}".encode())
        length += len(str(block.get("text", "")))
        yield hashed.digest(), length // CHARACTERS_PER_TOKEN, "cache_control" in block


def refusals(body: dict[str, Any]) -> Iterator[str]:
    """Faults of a request, in the API's words."""
    yield from (f"{name}: Extra inputs are not permitted" for name in body if name not in PARAMETERS)
    yield from (f"{name}: Field required" for name in ("max_tokens", "messages", "model") if name not in body)
    if body["max_tokens"] > MOST_TOKENS:
        yield (
            f"max_tokens: {body['max_tokens']} > {MOST_TOKENS}, which is the maximum allowed number of output tokens "
            f"for {body['model']}"
        )
    yield from _refused_turns(body)
    yield from _refused_sampling(body)
    yield from _refused_structure(body)


def _refused_turns(body: dict[str, Any]) -> Iterator[str]:
    marks = 0
    for place, block in enumerate(body.get("system", [])):
        marks += "cache_control" in block
        if not block.get("text"):
            yield f"system.{place}: text content blocks must be non-empty"
    for number, turn in enumerate(body["messages"]):
        if turn["role"] not in ("user", "assistant"):
            yield f'messages: Unexpected role "{turn["role"]}". Allowed roles are "user" or "assistant".'
        for place, block in enumerate(turn["content"]):
            marks += "cache_control" in block
            at = f"messages.{number}.content.{place}"
            if block["type"] not in BLOCKS:
                yield f"{at}: Input tag '{block['type']}' found using 'type' does not match any of the expected tags"
            if block["type"] == "text" and not block["text"].strip():
                yield f"{at}: text content blocks must contain non-whitespace text"
    if marks > MOST_MARKS:
        yield f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {marks}."
    if body["messages"][-1]["role"] == "assistant" and CURRENT.match(body["model"]):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _refused_sampling(body: dict[str, Any]) -> Iterator[str]:
    thinking, temperature = body.get("thinking", {}), body.get("temperature")
    if thinking.get("type") == "enabled":
        if CURRENT.match(body["model"]):
            yield (
                '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
                '"output_config.effort" to control thinking behavior.'
            )
        if thinking["budget_tokens"] < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        if thinking["budget_tokens"] >= body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
        if temperature not in (None, 1):
            yield "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."
        if body.get("tool_choice", {}).get("type") in ("tool", "any"):
            yield "Thinking may not be enabled when tool_choice forces tool use."
    if temperature is not None and CURRENT.match(body["model"]):
        yield "temperature is deprecated for this model."
    if temperature is not None and not 0 <= temperature <= 1:
        yield "temperature: range: 0..1"


def _refused_structure(body: dict[str, Any]) -> Iterator[str]:
    output = body.get("output_config", {})
    if output and EARLY.match(body["model"]):
        yield "output_config: Extra inputs are not permitted"
    yield from (
        f"output_config.{name}: Extra inputs are not permitted" for name in output if name not in ("format", "effort")
    )
    if output.get("effort", "low") not in ("low", "medium", "high", "xhigh", "max"):
        yield "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    form = output.get("format")
    if form is not None and form.get("type") != "json_schema":
        yield "output_config.format.type: Input should be 'json_schema'"
    for schema in _schemas(form["schema"] if form else {}):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            yield (
                "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
            )
    if body.get("tool_choice", {}).get("type") == "tool" and "tools" not in body:
        yield "tool_choice: may only be specified while providing tools"


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for each in schema.values():
            yield from _schemas(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _schemas(each)


def _error(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None, details: dict[str, str] | None = None
) -> web.Response:
    error = {"type": kind, "message": message} | ({"details": details} if details else {})
    body = {"type": "error", "error": error, "request_id": "req_1"}
    return web.json_response(body, status=status, headers=headers)


async def _serve(arguments: argparse.Namespace) -> None:
    judge = LoopbackAnthropic(latency_s=arguments.latency_s)
    judge.is_keeping_bodies = False
    await judge.start(arguments.port)
    sys.stdout.write(judge.base_url.rpartition(":")[2].removesuffix("/v1") + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A judge in Anthropic's form on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    asyncio.run(_serve(parser.parse_args()))

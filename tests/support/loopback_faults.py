"""What goes wrong with replies of HTTP 200, by the word that a script has for it."""

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any

from aiohttp import web

Completion = dict[str, Any]
TRICKLE_GAP_S = 0.05
BOMB_LENGTH = 128 * 2**20  # bytes, out of a hundred kilobytes

# Of the text that the judge writes.
TEXT_FAULTS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "empty": lambda _: "",
        "length": lambda text: text[:20],
        "huge": lambda text: text + " " * 10_000_000,
        "prose": lambda text: f"I would say {json.loads(text)['level']}, since it is warm.",
        "prose around": lambda text: f"Here is my judgment: {text} I hope it helps.",
        "fence": lambda text: f"```json\n{text}\n```",
        "think": lambda text: f'<think>Is it good? {{"level": "good"}}</think>\n{text}',
        "think closed": lambda text: f'Is it good? {{"level": "good"}}\n</think>\n{text}',
        "harmony": lambda text: (
            f"<|channel|>analysis<|message|>{{So<|end|><|start|>assistant<|channel|>final<|message|>{text}"
        ),
        "half a thought": lambda text: f"<think>Is it good? {text}",
        "wrong enum": lambda text: json.dumps(json.loads(text) | {"level": "excellent"}),
        "level id": lambda text: json.dumps(json.loads(text) | {"level": "good"}),
        "level list": lambda text: json.dumps(json.loads(text) | {"level": [json.loads(text)["level"]]}),
        "extra key": lambda text: json.dumps(json.loads(text) | {"score": 1.0}),
        "missing key": lambda text: json.dumps({"level": json.loads(text)["level"]}),
        "key twice": lambda text: text[:-1] + f', "level": "{json.loads(text)["level"]}"}}',
        "nested": lambda _: "[" * 200_000,
        "null": lambda _: "null",
        "half a surrogate": lambda text: json.dumps(json.loads(text) | {"rationale": "\ud800\x00"}),
    }
)


_EMPTY_CHOICE: dict[str, Any] = {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": None}}


def _choice(completion: Completion, **changes: Any) -> Completion:
    return completion | {"choices": [completion["choices"][0] | changes]}


def _content(completion: Completion, content: Any) -> Completion:
    return _choice(completion, message={"role": "assistant", "content": content})


def _part(completion: Completion) -> dict[str, Any]:
    return {"type": "text", "text": completion["choices"][0]["message"]["content"]}


def _usage(prompt_tokens: Any, completion_tokens: Any = 5) -> Callable[[Completion], Completion]:
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return lambda completion: completion | {"usage": counts}


def _with_nan(completion: Completion) -> Completion:
    tokens = completion["choices"][0]["logprobs"]["content"]
    bent = [{"token": token["token"], "logprob": float("nan"), "top_logprobs": []} for token in tokens]
    return _choice(completion, logprobs={"content": bent})


# Of what the endpoint makes of it: a body, or bytes that are none.
BODY_FAULTS: Mapping[str, Callable[[Completion], Completion | list[Any] | bytes]] = MappingProxyType(
    {
        "stream": lambda completion: b"data: " + json.dumps(completion).encode() + b"\n\ndata: [DONE]\n\n",
        "half a body": lambda completion: json.dumps(completion).encode()[:-9],
        "another model": lambda completion: completion | {"model": "a-cheaper-one"},
        "a list": lambda completion: [completion],
        "no utf-8": lambda completion: json.dumps(completion).encode() + b"\xff\xfe",
        "error object": lambda completion: {"error": {"message": "overloaded"}, "usage": completion["usage"]},
        "error of a choice": lambda completion: _choice(completion, error={"code": 502, "message": "upstream"}),
        "broken off": lambda completion: _choice(completion, finish_reason="error"),
        "limit in 200": lambda _: {"error": {"message": "Rate limit exceeded upstream", "code": 429}},
        "two choices": lambda completion: completion | {"choices": completion["choices"] + [_EMPTY_CHOICE]},
        "thought beside": lambda completion: _choice(
            completion, message=completion["choices"][0]["message"] | {"reasoning_content": "Hm."}
        ),
        "thought alone": lambda completion: _choice(
            completion, message={"role": "assistant", "content": None, "reasoning_content": "Hm."}
        ),
        "no choices": lambda completion: completion | {"choices": []},
        "null choices": lambda completion: completion | {"choices": None},
        "null message": lambda completion: _choice(completion, message=None),
        "parts": lambda completion: _content(completion, [{"type": "thinking", "thinking": "..."}, _part(completion)]),
        "output parts": lambda completion: _content(completion, [_part(completion) | {"type": "output_text"}]),
        "odd parts": lambda completion: _content(completion, [None, 1, {"type": "text", "text": 5}]),
        "odd names": lambda completion: completion | {"model": "m\ud800\x00" * 99_999, "service_tier": "\udfff"},
        "nan": _with_nan,
        "usage below 0": _usage(-7),
        "usage huge": _usage(10**30),
        "usage a float": _usage(7.5),
        "usage a text": _usage("7"),
        "usage a half": lambda completion: completion | {"usage": {"prompt_tokens": 7}},
        "usage nan": _usage(float("nan")),
        "usage 0": _usage(0, 0),
        "usage too low": _usage(7),
        "usage of no reply": lambda completion: (
            completion | {"usage": {"prompt_tokens": completion["usage"]["prompt_tokens"], "completion_tokens": 0}}
        ),
        "usage too high": _usage(10**9, 1_000),
        "usage a list": lambda completion: completion | {"usage": [7]},
    }
)


async def send_broken(request: web.Request, fault: str, body: bytes) -> web.StreamResponse | None:
    """Send a reply whose sending goes wrong; None where the word is no fault of that kind."""
    if fault == "drop in headers":
        return _cut(request, b"HTTP/1.1 200 OK\r\nContent-Type: applic")
    if fault == "drop in body":
        return _cut(request, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:-9])
    if fault in ("trickle", "300 MB", "open for ever"):
        return await (_trickle(request, body) if fault == "trickle" else _flood(request, fault == "300 MB"))
    if fault == "gzip bomb":
        return web.Response(body=_bomb(), headers={"Content-Encoding": "gzip"}, content_type="application/json")
    if fault == "no gzip":
        return web.Response(body=body, headers={"Content-Encoding": "gzip"}, content_type="application/json")
    return None


async def _flood(request: web.Request, is_fast: bool) -> web.StreamResponse:
    """Send blanks before a reply: 300 MB at once, or one now and then until nobody listens."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    with suppress(ConnectionError):
        for _ in range(300 if is_fast else 1_000):
            await response.write(b" " * (2**20 if is_fast else 1))
            await asyncio.sleep(0 if is_fast else TRICKLE_GAP_S)
    return response


@cache
def _bomb() -> bytes:
    packing = zlib.compressobj(wbits=31)  # gzip
    return b"".join(packing.compress(b" " * 2**20) for _ in range(BOMB_LENGTH // 2**20)) + packing.flush()


def _cut(request: web.Request, sent: bytes) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.write(sent)
        request.transport.close()
    return web.Response()


async def _trickle(request: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = len(body)
    await response.prepare(request)
    for place in range(len(body)):
        await response.write(body[place : place + 1])
        await asyncio.sleep(TRICKLE_GAP_S)
    return response

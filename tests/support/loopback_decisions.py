"""A decision model on 127.0.0.1 in both published forms, `/v1/systemone` and `/v1/decisions`.

It answers from a hash of the state, the question and the texts of its options. Faults come in a script, one word a
request, then none: a status (500, 429, 501 ...), drop, hang, garbage, error in 200, and the words of `ANSWER_FAULTS`.

    python tests/support/loopback_decisions.py --port 0 --latency-s 0.4
"""

import argparse
import asyncio
import hashlib
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.loopback_server import LoopbackServer

BYTES_PER_TOKEN = 4
STATUSES = ("400", "401", "403", "404", "409", "413", "422", "429", "500", "501", "503")
Answers = dict[str, dict[str, Any]]  # by question, in the form of the reply


@dataclass(frozen=True)
class Asked:
    """A question as the server reads it. kind: noul, choice or score. options: texts by name, in their order."""

    name: str
    kind: str
    instructions: str
    options: dict[str, str]


# Probabilities of the options, in order, from the state, the question, and all questions of the request.
Decide = Callable[[str, Asked, list[Asked]], list[float]]


class LoopbackDecisions(LoopbackServer):
    """The server and what it saw; a context manager that serves from a thread of its own."""

    def __init__(self, *, latency_s: float = 0.0, faults: tuple[str, ...] = (), key: str | None = None) -> None:
        self.latency_s = latency_s
        self.faults = list(faults)
        self.key = key  # without it 403, another one 401
        self.width = 1_000  # requests that are worked on at once; the others queue
        self.is_joint = False  # reads all questions of a request together
        self.decide: Decide = hashed
        self.digits: int | None = None  # to which it rounds
        self.model = "loopback-1.0"  # that says it answered
        self.most_question_tokens = 33_000  # of the state with the longest question
        self.most_request_tokens = 64_000  # of the state with all questions
        self.most_bytes: int | None = None  # of a request
        self.counts_state_each = False  # whether usage has the state once a question
        self.cuts_at: int | None = None  # tokens to which it cuts the state in silence
        self.usage: dict[str, Any] = {}  # beside its own counts
        self.bodies: list[dict[str, Any]] = []
        self.is_keeping_bodies = True
        self.request_count = self.question_count = self.input_tokens = 0
        self.in_flight = self.most_in_flight = 0
        self.base_url = ""

    # -------- serving
    async def start(self, port: int = 0) -> web.AppRunner:
        self._slots = asyncio.Semaphore(self.width)
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/v1/systemone", self._systemone)
        app.router.add_post("/v1/decisions", self._decisions)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    # -------- answering
    async def _models(self, request: web.Request) -> web.Response:
        architecture = {"input_modalities": ["text"], "output_modalities": ["decisions"]}
        listed = [{"id": self.model, "object": "model", "architecture": architecture}]
        return self._refused(request) or web.json_response({"object": "list", "data": listed})

    async def _stats(self, _: web.Request) -> web.Response:
        counts = {"requests": self.request_count, "questions": self.question_count, "input_tokens": self.input_tokens}
        return web.json_response(counts | {"most_in_flight": self.most_in_flight})

    def _refused(self, request: web.Request) -> web.Response | None:
        sent = request.headers.get("Authorization")
        if self.key is None or sent == f"Bearer {self.key}":
            return None
        return web.json_response({"detail": f"bad key {sent}"}, status=401 if sent else 403)

    async def _systemone(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, is_systemone=True)

    async def _decisions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, is_systemone=False)

    async def _serve(self, request: web.Request, *, is_systemone: bool) -> web.StreamResponse:
        content = await request.read()
        body = json.loads(content)
        self.request_count += 1
        if self.is_keeping_bodies:
            self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if (refused := self._refused(request)) is not None:
                return refused
            async with self._slots:
                await asyncio.sleep(self.latency_s)
            return await self._answer(request, body, len(content), is_systemone=is_systemone)
        finally:
            self.in_flight -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], byte_count: int, *, is_systemone: bool
    ) -> web.StreamResponse:
        fault = self.faults.pop(0) if self.faults else ""
        if fault in STATUSES:
            return web.json_response({"error": {"message": f"scripted {fault}"}}, status=int(fault))
        if fault == "hang":
            await asyncio.sleep(30)
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault == "garbage":
            return web.Response(text="<html>a gateway</html>", content_type="text/html")
        if fault == "error in 200":
            return web.json_response({"error": {"message": "upstream is busy", "code": 429}})
        state = systemone_state(body) if is_systemone else decisions_state(body)
        questions = systemone_questions(body) if is_systemone else decisions_questions(body)
        if isinstance(questions, str):
            return web.json_response({"detail": questions}, status=400)
        tokens = [_tokens(json.dumps([each.instructions, *each.options.values()])) for each in questions]
        if self._is_too_long(_tokens(state), tokens, byte_count):
            return web.json_response({"error": "max_tokens_exceeded"}, status=400)
        state_tokens = _tokens(state) if self.cuts_at is None else min(self.cuts_at, _tokens(state))
        counted = state_tokens * (len(questions) if self.counts_state_each else 1) + sum(tokens)
        self.input_tokens += counted
        self.question_count += len(questions)
        shares = {each.name: self._shares(state, each, questions) for each in questions}
        write = systemone_answer if is_systemone else decisions_answer
        answers: Answers = {each.name: write(each, shares[each.name]) for each in questions}
        if fault in ANSWER_FAULTS:
            answers = ANSWER_FAULTS[fault](answers, questions)
        usage = {"input_tokens": counted, "output_tokens": len(questions)} | self.usage
        listed = (
            answers
            if is_systemone
            else [answer and answer | {"name": name.partition("#")[0]} for name, answer in answers.items()]
        )
        return web.Response(
            body=json.dumps({"model": self.model, "answers": listed, "usage": usage}).encode(),
            content_type="application/json",
        )

    def _shares(self, state: str, asked: Asked, questions: list[Asked]) -> list[float]:
        shares = self.decide(state, asked, questions if self.is_joint else [asked])
        return shares if self.digits is None else [round(share, self.digits) for share in shares]

    def _is_too_long(self, state_tokens: int, tokens: list[int], byte_count: int) -> bool:
        return (
            state_tokens + max(tokens) > self.most_question_tokens
            or state_tokens + sum(tokens) > self.most_request_tokens
            or (self.most_bytes is not None and byte_count > self.most_bytes)
        )


def hashed(state: str, asked: Asked, questions: list[Asked]) -> list[float]:
    """Probabilities by a hash of what is asked; names of questions and of a choice's options don't matter."""
    others = [(each.instructions, *sorted(each.options.values())) for each in questions]
    masses = []
    for text in asked.options.values():
        drawn = hashlib.blake2b(repr((state, asked.instructions, text, others)).encode(), digest_size=8).digest()
        masses.append(math.exp(6 * int.from_bytes(drawn, "big") / 2**64))
    return [mass / sum(masses) for mass in masses]


# -------- System One
def systemone_state(body: dict[str, Any]) -> str:
    state = body["state"]
    return state if isinstance(state, str) else json.dumps(state)


def systemone_questions(body: dict[str, Any]) -> list[Asked] | str:
    """Questions of a body, or why it is refused."""
    asked = []
    for name, each in body["questions"].items():
        criteria = each.get("criteria")
        if each["type"] == "noul" and (criteria is None or criteria.keys() <= {"true", "false"}):
            options = {"false": "false", "true": "true"} | {key: str(text) for key, text in (criteria or {}).items()}
        elif each["type"] == "choice" and isinstance(criteria, dict) and 2 <= len(criteria) <= 255:
            options = {key: text or key for key, text in criteria.items()}
        elif each["type"] == "score" and isinstance(criteria, list) and 2 <= len(criteria) <= 10:
            options = {str(place): text for place, text in enumerate(criteria)}
        else:
            return f"questions.{name}: expected a noul, choice or score with its criteria"
        if set(each) - {"type", "instructions", "criteria"}:
            return f"questions.{name}: extra fields"
        asked.append(Asked(name, each["type"], each["instructions"], options))
    return asked or "questions: expected one at least"


def systemone_answer(asked: Asked, shares: list[float]) -> dict[str, Any]:
    if asked.kind == "noul":
        return {"type": "noul", "noul": shares[1]}
    named = dict(zip(asked.options, shares, strict=True))
    spread = {"type": asked.kind, "probabilities": named, "confidence": confidence(shares)}
    if asked.kind == "choice":
        return spread | {"choice": max(named, key=lambda name: named[name])}
    return spread | {"score": sum(place * share for place, share in enumerate(shares)), "legend": dict(asked.options)}


# -------- Decisions
def decisions_state(body: dict[str, Any]) -> str:
    given = body["input"]
    if isinstance(given, str):
        return given
    contents = [message["content"] for message in given if message["role"] == "user"]
    parts = [
        part
        for each in contents
        for part in ([{"type": "input_text", "text": each}] if isinstance(each, str) else each)
    ]
    return "\n".join(part["text"] if part["type"] == "input_text" else part["image_url"] for part in parts)


def decisions_questions(body: dict[str, Any]) -> list[Asked] | str:
    """Questions of a body, or why it is refused."""
    asked = []
    for each in body["questions"]:
        name = each.get("name")
        if each["type"] == "predicate" and set(each) == {"type", "name", "instructions"}:
            options = {"false": "false", "true": "true"}
        elif each["type"] == "choice" and 2 <= len(each["choices"]) <= 255:
            options = {choice["value"]: choice.get("description") or choice["value"] for choice in each["choices"]}
        elif each["type"] == "score" and 2 <= len(each["levels"]) <= 10:
            options = {
                str(place): level.get("description") or level["label"] for place, level in enumerate(each["levels"])
            }
        else:
            return f"{name}: expected a predicate, choice or score"
        asked.append(Asked(name, each["type"].replace("predicate", "noul"), each["instructions"], options))
    return asked or "questions: expected one at least"


def decisions_answer(asked: Asked, shares: list[float]) -> dict[str, Any]:
    if asked.kind == "noul":
        return {"type": "predicate", "probability": shares[1]}
    if asked.kind == "choice":
        listed = [{"value": name, "probability": share} for name, share in zip(asked.options, shares, strict=True)]
        chosen = max(listed, key=lambda each: each["probability"])["value"]
        return {"type": "choice", "choice": chosen, "probabilities": listed, "confidence": confidence(shares)}
    levels = [{"value": place, "label": str(place), "probability": share} for place, share in enumerate(shares)]
    score = sum(place * share for place, share in enumerate(shares))
    return {"type": "score", "score": score, "probabilities": levels, "confidence": confidence(shares)}


def confidence(shares: list[float]) -> float:
    """How far a distribution is from a flat one: not the probability of its peak."""
    entropy = -sum(share * math.log(share) for share in shares if share > 0)
    return 1 - entropy / math.log(len(shares))


# -------- what goes wrong with answers
def _first(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Answers, list[Asked]], Answers]:
    """Change the first answer."""

    def changed(answers: Answers, questions: list[Asked]) -> Answers:
        name = questions[0].name
        return answers | {name: change(answers[name])}

    return changed


def _spread(answer: dict[str, Any], change: Callable[[float], float]) -> dict[str, Any]:
    """Change every probability of an answer, whatever its form."""
    for key in ("noul", "probability"):
        if key in answer:
            return answer | {key: change(answer[key])}
    given = answer["probabilities"]
    if isinstance(given, dict):
        return answer | {"probabilities": {name: change(share) for name, share in given.items()}}
    return answer | {"probabilities": [each | {"probability": change(each["probability"])} for each in given]}


def _confident(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("probabilities", "noul", "probability")} | {
        "confidence": 0.9
    }


def _unknown(answer: dict[str, Any]) -> dict[str, Any]:
    given = answer.get("probabilities")
    if isinstance(given, dict):
        return answer | {"probabilities": given | {"ZZ": 0.0}}
    return answer | {"probabilities": [*(given or ()), {"value": "ZZ", "probability": 0.0}]}


def _swapped(answer: dict[str, Any]) -> dict[str, Any]:
    """Probabilities under the names of other options, as where a server sorts them."""
    given = answer.get("probabilities")
    if isinstance(given, dict):
        return answer | {"probabilities": dict(zip(given, [*given.values()][::-1], strict=True))}
    shares = [each["probability"] for each in given or ()][::-1]
    return answer | {
        "probabilities": [each | {"probability": share} for each, share in zip(given or (), shares, strict=True)]
    }


def _of_another_state(answers: Answers, _: list[Asked]) -> Answers:
    return {f"q1_{hashlib.md5(name.encode()).hexdigest()[:12]}": answer for name, answer in answers.items()}


ANSWER_FAULTS: dict[str, Callable[[Answers, list[Asked]], Answers]] = {
    "refusal": _first(lambda _: {"type": "refusal"}),
    "missing": lambda answers, questions: {name: each for name, each in answers.items() if name != questions[0].name},
    "null": _first(lambda _: None),  # type: ignore[arg-type,return-value]
    "sum": _first(lambda answer: _spread(answer, lambda share: share * 1.3)),
    "nan": _first(lambda answer: _spread(answer, lambda _: math.nan)),
    "negative": _first(lambda answer: _spread(answer, lambda share: share - 1)),
    "text": _first(lambda answer: _spread(answer, str)),  # type: ignore[arg-type]
    "unknown option": _first(_unknown),
    "swapped": _first(_swapped),
    "confidence": _first(_confident),
    "other type": _first(lambda answer: answer | {"type": "box"}),
    "unasked": lambda answers, _: answers | {"is_happy": {"type": "noul", "noul": 0.5}},
    "other state": _of_another_state,
    "twice": lambda answers, questions: answers | {f"{questions[0].name}#2": answers[questions[0].name]},
}


def _tokens(text: str) -> int:
    return len(text) // BYTES_PER_TOKEN


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=1_000)
    given = parser.parse_args()
    server = LoopbackDecisions(latency_s=given.latency_s)
    server.width, server.is_keeping_bodies = given.width, False

    async def serve() -> None:
        await server.start(given.port)
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()

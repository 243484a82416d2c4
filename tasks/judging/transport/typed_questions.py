"""Forms of decision models: System One (`/systemone`) and Decisions (`/decisions`).

Both read a state and typed questions, and return a probability for every option. A reply's text is the JSON object of
the answers by the names of their questions, in the one form that `read_answers` takes.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gradebook.rubrics.prompts.decisions import TypedQuestion
from gradebook.tasks.judging.replies.completion import (
    CONTEXT_TOO_LONG,
    ErrorBody,
    Reply,
    read_error,
    read_typed_answers,
)
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.transport.openai_chat import OpenAIChat

SYSTEM_ONE, DECISIONS = "/systemone", "/decisions"
_TOO_LONG_WORDS = ("max_tokens_exceeded", "context_length", "too long", "too large")


class SystemOne(OpenAIChat):
    """A state and a map of questions: `noul`, `choice` and `score`."""

    other_names: Mapping[str, str] = MappingProxyType({})

    def body(
        self, settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str
    ) -> dict[str, Any]:
        """Body of one request about one state."""
        text, images = _state(request)
        questions = {question.name: _systemone_question(question) for question in request.questions}
        body = {**settings.extra_body, "model": settings.model, "state": text, "questions": questions}
        return body | {"images": images} if images else body

    def path(self, body: Mapping[str, Any]) -> str:
        """Path below the address to which a body is sent."""
        return SYSTEM_ONE

    def read(self, path: str, content: bytes, latency_ms: float) -> Reply:
        """Reply in the body of an HTTP 200, or its `error`."""
        return read_typed_answers(content, latency_ms, _systemone_answers)

    def read_error(self, content: bytes) -> ErrorBody:
        """Error in the body of any other status; one of the ceilings under OpenAI's name."""
        return _with_ceiling(read_error(content))


class Decisions(SystemOne):
    """An input and a list of questions: `predicate`, `choice` and `score`."""

    def body(
        self, settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str
    ) -> dict[str, Any]:
        """Body of one request about one input."""
        text, images = _state(request)
        parts = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": url} for url in images)]
        model_input = [{"type": "message", "role": "user", "content": parts}] if images else text
        questions = [{"name": question.name, **_decisions_question(question)} for question in request.questions]
        return {**settings.extra_body, "model": settings.model, "input": model_input, "questions": questions}

    def path(self, body: Mapping[str, Any]) -> str:
        """Path below the address to which a body is sent."""
        return DECISIONS

    def read(self, path: str, content: bytes, latency_ms: float) -> Reply:
        """Reply in the body of an HTTP 200, or its `error`."""
        return read_typed_answers(content, latency_ms, _decisions_answers)


def _state(request: Request) -> tuple[str, list[str]]:
    """Text of the state, and the addresses of its images."""
    content = request.messages[0]["content"]
    if isinstance(content, str):
        return content, []
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "\n".join(texts), [part["image_url"]["url"] for part in content if part["type"] == "image_url"]


def _systemone_question(question: TypedQuestion) -> dict[str, Any]:
    if question.kind == "predicate":
        return {"type": "noul", "instructions": question.instructions}
    texts = {option.name: option.text for option in question.options}
    criteria = [*texts.values()] if question.kind == "score" else texts
    return {"type": question.kind, "instructions": question.instructions, "criteria": criteria}


def _decisions_question(question: TypedQuestion) -> dict[str, Any]:
    typed = {"type": question.kind, "instructions": question.instructions}
    if question.kind == "predicate":
        return typed
    if question.kind == "choice":
        return typed | {"choices": [{"value": option.name, "description": option.text} for option in question.options]}
    return typed | {"levels": [{"label": option.name, "description": option.text} for option in question.options]}


def _systemone_answers(answers: object) -> Any:
    """Answers of System One in the one form: a `noul` is a predicate."""
    if not isinstance(answers, dict):
        return answers
    return {name: _without_noul(answer) for name, answer in answers.items()}


def _without_noul(answer: object) -> object:
    if not isinstance(answer, dict) or answer.get("type") != "noul":
        return answer
    return {"type": "predicate", "probability": answer.get("noul")}


def _decisions_answers(answers: object) -> Any:
    """Answers of Decisions in the one form, by name; a name that comes twice is one that nobody asked."""
    if not isinstance(answers, list):
        return answers
    by_name: dict[str, Any] = {}
    for answer in filter(None, answers):
        name = str(answer.get("name")) if isinstance(answer, dict) else "no name"
        by_name[f"{name} again" if name in by_name else name] = _with_named_shares(answer)
    return by_name


def _with_named_shares(answer: object) -> object:
    """Answer with its probabilities by option; of a level by its index, unless the label is another level's."""
    if not isinstance(answer, dict) or not isinstance(answer.get("probabilities"), list):
        return answer
    shares: dict[str, Any] = {}
    for share in answer["probabilities"]:
        value, label = (share.get("value"), share.get("label")) if isinstance(share, dict) else (share, None)
        name = value if isinstance(value, str) else json.dumps(value)
        probability = share.get("probability") if isinstance(share, dict) else None
        shares[name if label in (None, name) else f"{name} {label}"] = probability
    return {key: value for key, value in answer.items() if key != "name"} | {"probabilities": shares}


def _with_ceiling(error: ErrorBody) -> ErrorBody:
    """Error of a state or request that is too long under the code that OpenAI's form has for it."""
    body_text = json.dumps(error.body, default=str).lower()
    if any(words in body_text for words in _TOO_LONG_WORDS):
        return ErrorBody(error.body, CONTEXT_TOO_LONG, error.type)
    return error

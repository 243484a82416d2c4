"""Body of an HTTP 200: the reply, its usage and its log-probabilities, read as hostile."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import orjson

from gradebook.rubrics.prompts.reply_parser import TokenChoices, clean_text
from gradebook.tasks.judging.money.prices import Usage, least_tokens

MOST_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP 200. usage, service_tier, choices and system_fingerprint are None if the endpoint sent none."""

    text: str | None
    finish_reason: str | None
    refusal: str | None
    model_returned: str | None
    usage: Usage | None
    latency_ms: float
    service_tier: str | None = None
    choices: TokenChoices | None = None  # log-probabilities, token by token
    headers: Mapping[str, str] | None = None
    is_completion: bool = True  # False: the text is the body itself
    base_url: str | None = None  # address that answered
    system_fingerprint: str | None = None  # of the backend's configuration


def read_completion(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200; a body that is no chat completion becomes the text, with its usage if any."""
    parsed = _parse(content)
    body = parsed if isinstance(parsed, dict) else {}
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = _written(message.get("content")), _text(message.get("refusal"))
        finish_reason, choices = _text(choice.get("finish_reason")), _choices(choice.get("logprobs"))
        is_completion = True
    except (LookupError, TypeError, AttributeError):
        is_completion = False
        text, refusal, finish_reason, choices = content.decode("utf-8", "replace"), None, None, None
    return Reply(
        text,
        finish_reason,
        refusal,
        _name(body.get("model")),
        _usage(body.get("usage")),
        latency_ms,
        _name(body.get("service_tier")),
        choices,
        is_completion=is_completion,
        system_fingerprint=_name(body.get("system_fingerprint")),
    )


def read_embeddings(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200 of `/embeddings`: the body as the text, with its usage if any."""
    parsed = _parse(content)
    body = parsed if isinstance(parsed, dict) else {}
    usage = body.get("usage")
    counted = {**usage, "completion_tokens": 0} if isinstance(usage, dict) else None
    text = content.decode("utf-8", "replace")
    return Reply(text, None, None, _name(body.get("model")), _usage(counted), latency_ms, is_completion=False)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """Body of any other HTTP status. body: its `error`, or the whole: parsed JSON, or text."""

    body: object
    code: str | None = None
    type: object = None


def read_error(content: bytes) -> ErrorBody:
    """Read the body of an error, of whatever form."""
    parsed = _parse(content)
    if parsed is None:
        return ErrorBody(content.decode("utf-8", "replace").strip())
    body = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(body, dict):
        return ErrorBody(body)
    code = body.get("code")
    return ErrorBody(body, None if code is None else str(code), body.get("type"))


def drop_false_usage(reply: Reply, least_prompt_tokens: int) -> Reply:
    """Reply without its usage if that has fewer tokens than the texts sent and received can have.

    Some gateways report 0 tokens; a cost from such counts would be no cost.
    """
    usage = reply.usage
    if usage is None:
        return reply
    written = [text for text in (reply.text, reply.refusal) if text] if reply.is_completion else []
    is_false = usage.prompt_tokens < least_prompt_tokens or usage.completion_tokens < least_tokens(*written)
    return replace(reply, usage=None) if is_false else reply


def _parse(content: bytes) -> object:
    """Body parsed as JSON; None if it is not JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(content)  # accepts NaN and lone surrogates, which some servers write
    except (ValueError, RecursionError):
        return None


def _written(content: object) -> str | None:
    """Text of a reply; for a list of parts, its text parts without reasoning and other kinds."""
    if not isinstance(content, list):
        return _text(content)
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(_text(part.get("text")) or "" for part in parts)


def _name(value: object) -> str | None:
    return clean_text(value, MOST_NAME_LENGTH) if isinstance(value, str) else None


def _choices(logprobs: object) -> TokenChoices | None:
    """Candidate tokens at each position of the reply; None unless in the usual shape."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            tuple((str(each["token"]), float(each["logprob"])) for each in (token, *(token.get("top_logprobs") or ())))
            for token in content
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(usage: object) -> Usage | None:
    """Usage of a reply; None unless both counts are present: a missing count is not zero tokens."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    prompt_details = usage.get("prompt_tokens_details")
    details = prompt_details if isinstance(prompt_details, dict) else {}
    cached = min(_count(details.get("cached_tokens")) or 0, prompt)
    written = _count(details.get("cache_write_tokens")) or _count(details.get("cache_creation_tokens")) or 0
    sound = min(_count(details.get("audio_tokens")) or 0, prompt)
    return Usage(prompt, cached, completion, min(written, prompt - cached), sound)


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return cast(int, value) if is_count else None

"""Anthropic's form: `/messages`, with the case written to the prompt cache once and read from it by its other criteria.

Sources, read on 2026-11-29: https://platform.claude.com/docs/en/api/messages, .../build-with-claude/prompt-caching,
.../structured-outputs, .../adaptive-thinking, .../api/errors, .../api/rate-limits.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from gradebook.tasks.judging.prices import Usage
from gradebook.tasks.judging.replies.completion import (
    CONTEXT_TOO_LONG,
    ErrorBody,
    Reply,
    count_of,
    error_body,
    name_of,
    parse_body,
    read_error,
)
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.transport.openai_chat import thinking_part
from gradebook.tasks.judging.transport.retry_policy import RateLimit, limit_of

MESSAGES = "/messages"
VERSION = "2023-06-01"
CACHED = MappingProxyType({"type": "ephemeral"})  # for five minutes, which each read renews
_THOUGHTS = ("thinking", "redacted_thinking")
_LIMITED = {"requests": "requests", "tokens": "input-tokens"}
_TIERS = {"auto": "auto", "default": "standard_only"}
# Codes of OpenAI for errors, by patterns of the message and the detail code.
_CODES = (
    (CONTEXT_TOO_LONG, re.compile(r"prompt is too long|exceeds? (the )?context (limit|window)")),
    ("insufficient_quota", re.compile(r"credit balance is too low|API usage limits|enforced_spend_limit_reached")),
    ("content_filter", re.compile(r"blocked by content filtering")),
)
# A message about a field begins with it, alone or in quotation marks: `output_config.format: Extra inputs are ...`.
_FIELD = re.compile(
    r"[`\"']?(temperature|max_tokens|thinking|service_tier|output_config\.effort|output_config|tool_choice|tools)\b"
)
_LABELLED = ("level", "label")  # properties of a reply that hold one of the labels shown
_SETTINGS = {
    "output_config.effort": "reasoning_effort",
    "output_config": "response_format",
    "tool_choice": "response_format",
    "tools": "response_format",
}
_IMAGE = re.compile(r"data:(image/[a-z]+);base64,", re.IGNORECASE)


class AnthropicMessages:
    """Messages of Claude models. Images go along; what it lacks is refused by `JudgeSettings`."""

    probe_path = "/models"
    other_names: Mapping[str, str] = MappingProxyType({})

    def headers(self, address: Address, key: str) -> dict[str, str]:
        """The key and the version of the form."""
        return {address.key_header or "x-api-key": key, "anthropic-version": VERSION}

    def body(
        self, settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str
    ) -> dict[str, Any]:
        """Body of one message. The instructions are marked for the cache, and the case where others ask of it too."""
        system = [_texts_of(message) for message in request.messages if message["role"] in ("system", "developer")]
        turns = [dict(message) for message in request.messages if message["role"] not in ("system", "developer")]
        for turn in turns:
            turn["content"] = _content(turn.get("content"))
        if request.is_shared and turns:
            turns[0]["content"] = _marked(turns[0]["content"])
        body: dict[str, Any] = {
            **settings.extra_body,
            **request.extra_body,
            "model": settings.model,
            "max_tokens": max_tokens,
            "messages": turns,
            **_structure(settings, request.schema),
        }
        if system:
            body["system"] = [{"type": "text", "text": "\n\n".join(system), "cache_control": dict(CACHED)}]
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.thinking is not None:
            body["thinking"] = thinking_part(settings.thinking)
        if settings.service_tier is not None:
            body["service_tier"] = _TIERS[settings.service_tier]
        return body

    def path(self, body: Mapping[str, Any]) -> str:
        """Path below the address to which a body is sent."""
        return MESSAGES

    def read(self, path: str, content: bytes, latency_ms: float) -> Reply:
        """Reply in the body of an HTTP 200: its text, or the input of the tool that was asked for."""
        parsed = parse_body(content)
        body = parsed if isinstance(parsed, dict) else {}
        blocks = body.get("content")
        is_message = isinstance(blocks, list)
        kinds = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        text = _text(kinds) if is_message else content.decode("utf-8", "replace")
        ending, usage = body.get("stop_reason"), body.get("usage")
        return Reply(
            text,
            ending if isinstance(ending, str) else None,
            _refusal(body, text) if ending == "refusal" else None,
            name_of(body.get("model")),
            _usage(usage),
            latency_ms,
            name_of(usage.get("service_tier")) if isinstance(usage, dict) else None,
            is_completion=is_message,
            error=_error(body) if not is_message else None,
            has_thought=any(kind.get("type") in _THOUGHTS for kind in kinds),
        )

    def read_error(self, content: bytes) -> ErrorBody:
        """Error in the body of any other status, under OpenAI's names."""
        return _with_code(read_error(content))

    def rate_limit(self, headers: Mapping[str, str], unit: str) -> RateLimit | None:
        """Limit of the anthropic-ratelimit-* headers."""
        start = f"anthropic-ratelimit-{_LIMITED[unit]}"
        return limit_of(headers.get(f"{start}-limit"), headers.get(f"{start}-remaining"))

    def limited_tokens(self, usage: Usage) -> int:
        """Tokens that count towards the limit: what is read from the cache does not."""
        return usage.prompt_tokens - usage.cached_tokens + usage.completion_tokens


def _structure(settings: JudgeSettings, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keys of a request's body that set the reply's format and the reasoning effort."""
    parts: dict[str, Any] = {}
    output: dict[str, Any] = {} if settings.reasoning_effort is None else {"effort": settings.reasoning_effort}
    if schema is not None and settings.reply_format == "json_schema":
        output["format"] = {"type": "json_schema", "schema": _without_labels(schema["schema"])}
    elif schema is not None and settings.reply_format == "tool":
        tool = {"name": schema["name"], "input_schema": _without_labels(schema["schema"])}
        parts = {"tools": [tool], "tool_choice": {"type": "tool", "name": schema["name"]}}
    return parts | ({"output_config": output} if output else {})


def _texts_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, list):
        return str(content or "")
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def _content(content: object) -> list[dict[str, Any]]:
    """Blocks of a turn. Parts of other kinds than text and images stay as they are, for the endpoint to refuse."""
    if isinstance(content, list):
        return [_block(part) if isinstance(part, dict) else part for part in content]
    return [{"type": "text", "text": str(content or "")}]


def _block(part: dict[str, Any]) -> dict[str, Any]:
    image = part.get("image_url")
    if part.get("type") != "image_url" or not isinstance(image, dict):
        return part
    url = str(image.get("url"))
    if (start := _IMAGE.match(url)) is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": start[1].lower(), "data": url[start.end() :]}}


def _marked(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks of the case and its question, with the end of the case marked for the cache.

    The question follows the last blank line, or the images of the case.
    """
    if len(blocks) == 1:
        case, blank, question = blocks[0]["text"].rpartition("\n\n")
        if not case.strip():
            return blocks
        blocks = [{"type": "text", "text": case}, {"type": "text", "text": blank + question}]
    *others, last_of_case, question_block = blocks
    return [*others, last_of_case | {"cache_control": dict(CACHED)}, question_block]


def _without_labels(schema: Any) -> Any:
    """Schema with any text as a level: labels differ by case and criterion, and another schema empties the cache.

    "Changing the `output_config.format` parameter will invalidate any prompt cache for that conversation thread."
    Labels are checked when the reply is read.
    """
    if isinstance(schema, list):
        return [_without_labels(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {"type": "string"}
        if name in _LABELLED and isinstance(value, dict) and "enum" in value
        else _without_labels(value)
        for name, value in schema.items()
    }


def _text(blocks: list[dict[str, Any]]) -> str:
    """Text of a reply, or the input of its only tool as JSON."""
    text = "".join(
        block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)
    )
    inputs = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
    if text.strip() and not inputs:
        return text
    return orjson.dumps(inputs[0]).decode() if len(inputs) == 1 and isinstance(inputs[0], dict) else text


def _refusal(body: Mapping[str, Any], text: str) -> str:
    details = body.get("stop_details")
    explanation = details.get("explanation") if isinstance(details, dict) else None
    return next(
        (reason for reason in (explanation, text) if isinstance(reason, str) and reason.strip()), "stop_reason: refusal"
    )


def _usage(usage: object) -> Usage | None:
    """Usage of a reply: three counts of the prompt add up to it. None unless both ends are counted."""
    if not isinstance(usage, dict):
        return None
    fresh, completion = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    if fresh is None or completion is None:
        return None
    written = count_of(usage.get("cache_creation_input_tokens")) or 0
    cached = count_of(usage.get("cache_read_input_tokens")) or 0
    details = usage.get("output_tokens_details")
    thought = count_of(details.get("thinking_tokens")) if isinstance(details, dict) else None
    return Usage(fresh + written + cached, cached, completion, written, reasoning_tokens=min(thought or 0, completion))


def _error(body: Mapping[str, Any]) -> ErrorBody | None:
    """Error of a body that came with HTTP 200."""
    error = body.get("error")
    return _with_code(error_body(error)) if error else None


def _with_code(error: ErrorBody) -> ErrorBody:
    """Error with the code and the parameter that OpenAI would give it."""
    if not isinstance(error.body, dict):
        return error
    message, details = error.body.get("message"), error.body.get("details")
    detail_code = details.get("error_code") if isinstance(details, dict) else None
    description = f"{message} {detail_code}"
    code = next(
        (code for code, pattern in _CODES if pattern.search(description)), error.code or name_of(error.body.get("type"))
    )
    field = _FIELD.match(message) if isinstance(message, str) else None
    if field is None:
        parameter = "reasoning_effort" if "support the effort parameter" in description else None
    else:
        parameter = _SETTINGS.get(field[1], field[1])
    body = error.body if parameter is None else error.body | {"param": parameter}
    return ErrorBody(body, code, error.type)

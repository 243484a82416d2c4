"""OpenAI's form: `/chat/completions` and `/embeddings`, as most endpoints are asked."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from gradebook.tasks.judging.prices import Usage
from gradebook.tasks.judging.replies.completion import ErrorBody, Reply, read_completion, read_embeddings, read_error
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import KEY_VARIABLE, Address
from gradebook.tasks.judging.transport.retry_policy import RateLimit, read_rate_limit

CAPPED_BY_COMPLETION_TOKENS = ("api.openai.com", ".openai.azure.com")  # their newer models refuse `max_tokens`
COMPLETIONS, EMBEDDINGS = "/chat/completions", "/embeddings"
MOST_TOP_LOGPROBS = 20  # maximum that endpoints return
_OWNERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}  # by header: its variable


class OpenAIChat:
    """Chat completions, and embeddings for a request that has texts to embed."""

    probe_path = "/models"
    other_names: Mapping[str, str] = MappingProxyType(
        {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
    )

    def headers(self, address: Address, key: str) -> dict[str, str]:
        """The key, and the organization and project that pay, which the environment may name."""
        own_key = {"Authorization": f"Bearer {key}"} if address.key_header is None else {address.key_header: key}
        if address.key not in (None, f"env:{KEY_VARIABLE}"):
            return own_key
        return own_key | {header: value for header, variable in _OWNERS.items() if (value := os.environ.get(variable))}

    def body(
        self, settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str
    ) -> dict[str, Any]:
        """Body of one chat completion, or of one request for embeddings."""
        if request.is_embedding:
            texts = [message["content"] for message in request.messages]
            embedding_body = {"model": settings.model, "input": texts, "encoding_format": "float"}
            return {**settings.extra_body, **request.extra_body, **embedding_body}
        body: dict[str, Any] = {
            **settings.extra_body,
            **request.extra_body,
            "model": settings.model,
            "messages": request.messages,
            token_limit_name(base_url): max_tokens,
        }
        if request.schema is not None:
            body |= _structure(settings, request.schema)
        if request.is_logprobs:
            body |= {"logprobs": True, "top_logprobs": MOST_TOP_LOGPROBS}
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.seed is not None:
            body["seed"] = settings.seed + replicate
        if settings.thinking is not None:
            body["thinking"] = thinking_part(settings.thinking)
        for name in ("service_tier", "reasoning_effort", "verbosity"):
            if getattr(settings, name) is not None:
                body[name] = getattr(settings, name)
        return body

    def path(self, body: Mapping[str, Any]) -> str:
        """Path below the address to which a body is sent."""
        return EMBEDDINGS if "input" in body else COMPLETIONS

    def read(self, path: str, content: bytes, latency_ms: float) -> Reply:
        """Reply in the body of an HTTP 200, or its `error`."""
        return (read_embeddings if path == EMBEDDINGS else read_completion)(content, latency_ms)

    def read_error(self, content: bytes) -> ErrorBody:
        """Error in the body of any other status."""
        return read_error(content)

    def rate_limit(self, headers: Mapping[str, str], unit: str) -> RateLimit | None:
        """Limit of the x-ratelimit-* headers."""
        return read_rate_limit(headers, unit)

    def limited_tokens(self, usage: Usage) -> int:
        """Tokens that count towards the limit."""
        return usage.prompt_tokens + usage.completion_tokens


def _structure(settings: JudgeSettings, schema: dict[str, Any]) -> dict[str, Any]:
    """Parts of a body for the form of the reply."""
    if settings.reply_format == "json_schema":
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if settings.reply_format == "json_object":
        return {"response_format": {"type": "json_object"}}
    if settings.reply_format == "text":
        return {}
    function = {"name": schema["name"], "strict": True, "parameters": schema["schema"]}
    choice = {"type": "function", "function": {"name": schema["name"]}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


def thinking_part(token_count: int) -> dict[str, Any]:
    """Part of a body that allows so many tokens of thought, or turns it off, as Anthropic and others name it."""
    return {"type": "enabled", "budget_tokens": token_count} if token_count else {"type": "disabled"}


def token_limit_name(base_url: str) -> str:
    """Name of the parameter that limits the tokens of a reply, by endpoint."""
    host = urlsplit(base_url).hostname or ""
    return "max_completion_tokens" if host.endswith(CAPPED_BY_COMPLETION_TOKENS) else "max_tokens"

"""The body of a request, the same online and in a batch."""

from typing import Any
from urllib.parse import urlsplit

from gradebook.tasks.judging.questions import Request
from gradebook.tasks.judging.settings import JudgeSettings

CAPPED_BY_COMPLETION_TOKENS = ("api.openai.com", ".openai.azure.com")  # their newer models refuse `max_tokens`
MOST_TOP_LOGPROBS = 20  # what endpoints give at most


def request_body(
    settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str | None = None
) -> dict[str, Any]:
    """Write the body of one chat completion. base_url: where it is sent, if not to the judge's own address."""
    body: dict[str, Any] = {
        **request.extra_body,
        "model": settings.model,
        "messages": request.messages,
        token_limit_name(base_url or settings.base_url): max_tokens,
    }
    if request.schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
    if request.is_logprobs:
        body |= {"logprobs": True, "top_logprobs": MOST_TOP_LOGPROBS}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.seed is not None:
        body["seed"] = settings.seed + replicate
    if settings.service_tier is not None:
        body["service_tier"] = settings.service_tier
    return body


def token_limit_name(base_url: str) -> str:
    """The name under which an endpoint takes the limit of tokens in a reply."""
    host = urlsplit(base_url).hostname or ""
    return "max_completion_tokens" if host.endswith(CAPPED_BY_COMPLETION_TOKENS) else "max_tokens"

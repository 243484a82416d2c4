"""Body of an HTTP 200: the reply, its usage and its log-probabilities, or an error; read as hostile.

A reply that can't be read is described for an error or a note, with the setting that may help.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import orjson

from gradebook.rubrics.prompts.reply_parser import TokenChoices, clean_text
from gradebook.tasks.judging.prices import Usage, least_tokens

MOST_NAME_LENGTH = 200
BROKEN_OFF = ("error", "abort")  # finish reasons of servers that stopped early
CUT_REMEDY = "set a larger context length at the server (Ollama: OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size)"
MAY_BE_CUT = (
    f"it may cut prompts, so that verdicts are about a part of the text: {CUT_REMEDY}, then `epoch: 1` in the judge "
    "file asks all anew"
)
# Codes of errors, in OpenAI's form.
CONTEXT_TOO_LONG, WRONG_KEY = "context_length_exceeded", "invalid_api_key"
NO_MODEL, NO_QUOTA = "model_not_found", "insufficient_quota"
# Those codes by the types of other servers: llama.cpp, Mistral, LiteLLM, Together.
_CODES_BY_TYPE: Mapping[str, str] = MappingProxyType(
    {"exceed_context_size_error": CONTEXT_TOO_LONG, "invalid_model": NO_MODEL}
    | {"budget_exceeded": NO_QUOTA, "credit_limit": NO_QUOTA}
    | {"no_db_connection": WRONG_KEY}  # without a database LiteLLM knows its master key alone
)
# And by the beginnings of their messages: what follows may repeat the prompt.
_CODES_BY_MESSAGE = tuple(
    (code, re.compile(rf"(?:litellm\.\w+: )*(?:{pattern})"))
    for code, pattern in (
        (WRONG_KEY, "API key not valid|Incorrect API key provided"),  # Google, xAI: with the status 400
        (NO_MODEL, r"Model Not Exist|(?:/[\w/]+: )?Invalid model name passed in|\S{1,200} is not a valid model ID$"),
        (NO_MODEL, r"Unable to access (?:non-serverless )?model |The dedicated endpoint for \S{1,200} is not running"),
        (NO_QUOTA, r"Insufficient Balance|Budget has been exceeded|Account \S{1,99} is suspended"),
        (NO_QUOTA, r"You exceeded your current quota(?s:.{0,999}), limit: 0,"),  # Google: none of this model, ever
        (CONTEXT_TOO_LONG, "This model's maximum context length is|litellm.ContextWindowExceededError"),
        (CONTEXT_TOO_LONG, r"request \(\d+ tokens\) exceeds the available context size"),
    )
)
_PARAMETER = re.compile(
    r"\b(temperature|max_completion_tokens|max_tokens|response_format|json_schema|seed|top_logprobs|logprobs|service_tier"
    r"|reasoning_effort|verbosity|thinking)\b"
)
# A message may repeat words of the prompt, so it has to say that something is refused.
_REFUSAL = re.compile(
    "support|deprecat|unavailable|invalid|allowed|recogni|unknown|unexpected|permitted", re.IGNORECASE
)
_PARAMETERS_BY_WORD = {"json_schema": "response_format", "top_logprobs": "logprobs"}
_TEXT_PARTS = ("text", "output_text")
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")  # fields of a message
# HTTP status of an error by a word of its code or type, where it has no number.
_STATUSES_BY_WORD: Mapping[str, int] = MappingProxyType(
    {"rate_limit": 429, "resource_exhausted": 429, "overloaded": 503, "content_filter": 400, "content_policy": 400}
    | {"context_length": 400, "invalid_request": 400, "authentication": 401, "permission": 403, "not_found": 404}
    | {"invalid_api_key": 401}
)


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP 200. usage, service_tier, choices and system_fingerprint are None if the endpoint sent none.

    error: what the endpoint answered in place of a completion. doubt: why its token counts were dropped.
    """

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
    error: "ErrorBody | None" = None
    doubt: str | None = None
    is_maybe_cut: bool = False  # whether the doubt is that the endpoint cuts prompts
    has_thought: bool = False  # in a separate field


def read_completion(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200; a body that is no chat completion becomes the text, with its usage if any.

    Of several choices, which gradebook never asks for, the texts are one: verdicts that differ make it unreadable.
    """
    parsed = parse_body(content)
    body = parsed if isinstance(parsed, dict) else {}
    error = _error_of(body)
    try:
        messages = [choice["message"] for choice in body["choices"]]
        texts = [text for message in messages if (text := _written(message.get("content")))]
        text = "\n".join(texts) if texts else _called(messages[0]) or _written(messages[0].get("content"))
        refusal = _refusal(messages[0])
        choice = body["choices"][0]
        finish_reason, choices = _text(choice.get("finish_reason")), _choices(choice.get("logprobs"))
        has_thought = any(messages[0].get(name) for name in _THOUGHTS)
        is_completion = True
    except (LookupError, TypeError, AttributeError):
        is_completion = has_thought = False
        text, refusal, finish_reason, choices = content.decode("utf-8", "replace"), None, None, None
    return Reply(
        text,
        finish_reason,
        refusal,
        name_of(body.get("model")),
        _usage(body.get("usage")),
        latency_ms,
        name_of(body.get("service_tier")),
        choices,
        is_completion=is_completion,
        system_fingerprint=name_of(body.get("system_fingerprint")),
        error=error,
        has_thought=has_thought,
    )


def _error_of(body: dict[str, Any]) -> "ErrorBody | None":
    """Error of a body that came with HTTP 200: its own or its choice's, no choice at all, or a choice broken off."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    for error in (body.get("error"), choice.get("error")):
        if error:
            return error_body(error)
    if "choices" in body and not choices:
        return ErrorBody("no choices")
    finish_reason = choice.get("finish_reason")
    if finish_reason in BROKEN_OFF:
        return ErrorBody(f"finish_reason {finish_reason}")
    return None


def read_embeddings(content: bytes, latency_ms: float) -> Reply:
    """Read the body of an HTTP 200 of `/embeddings`: the body as the text, with its usage if any."""
    parsed = parse_body(content)
    body = parsed if isinstance(parsed, dict) else {}
    usage = body.get("usage")
    counted = {**usage, "completion_tokens": 0} if isinstance(usage, dict) else None
    text = content.decode("utf-8", "replace")
    return Reply(text, None, None, name_of(body.get("model")), _usage(counted), latency_ms, is_completion=False)


def read_typed_answers(content: bytes, latency_ms: float, normalise: Callable[[object], Any]) -> Reply:
    """Read the body of an HTTP 200 with answers to typed questions: their JSON as the text, with its usage if any.

    normalise: the answers of one form in the one that `read_answers` takes. Output tokens are reported, not billed.
    """
    parsed = parse_body(content)
    body = parsed if isinstance(parsed, dict) else {}
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    counted = {"prompt_tokens": counts.get("input_tokens"), "completion_tokens": counts.get("output_tokens", 0)}
    cached = {"prompt_tokens_details": counts.get("input_tokens_details")}
    is_answered = "answers" in body
    try:
        text = json.dumps(normalise(body["answers"]))
    except (LookupError, RecursionError):  # no answers, or nested too deeply
        text = content.decode("utf-8", "replace")
    error = error_body(body["error"]) if body.get("error") and not is_answered else None
    read = _usage(counted | cached)
    return Reply(text, None, None, name_of(body.get("model")), read, latency_ms, is_completion=False, error=error)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """Error of an endpoint. body: the `error` of a JSON object, or the whole body: parsed JSON, or text.

    code: as sent, or the one that OpenAI has for what is said.
    """

    body: object
    code: str | None = None
    type: object = None

    @property
    def status(self) -> int:
        """HTTP status that an error within an HTTP 200 means: its code, or the code of its kind; else 502."""
        label = f"{self.code} {self.type}".lower()
        if self.code is not None and re.fullmatch("[45][0-9][0-9]", self.code):
            return int(self.code)
        return next((status for word, status in _STATUSES_BY_WORD.items() if word in label), 502)

    @property
    def refused_parameter(self) -> str | None:
        """Parameter of a request that the error is about: its `param`, else the first one in a message of refusal."""
        fields = self.body if isinstance(self.body, dict) else {"message": self.body}
        for name in ("param", "message", "detail"):
            text = _first_detail(fields.get(name))
            match = _PARAMETER.search(text) if isinstance(text, str) else None
            if match is not None and (name == "param" or _REFUSAL.search(str(text))):
                return _PARAMETERS_BY_WORD.get(match[0], match[0])
        return None


def read_error(content: bytes) -> ErrorBody:
    """Read the body of an error, of whatever form."""
    parsed = parse_body(content)
    if parsed is None:
        return ErrorBody(content.decode("utf-8", "replace").strip())
    if isinstance(parsed, list) and len(parsed) == 1:  # as Google wraps it
        parsed = parsed[0]
    return error_body(parsed.get("error", parsed) if isinstance(parsed, dict) else parsed)


def error_body(body: object) -> ErrorBody:
    """Error of a parsed `error`, with the code of OpenAI where another server says the same."""
    if not isinstance(body, dict):
        return ErrorBody(body, _meant_code(body))
    code, kind = body.get("code"), body.get("type")
    meant = _CODES_BY_TYPE.get(kind) if isinstance(kind, str) else None
    meant = meant or _meant_code(body.get("message"))
    return ErrorBody(body, meant or (None if code is None else str(code)), kind)


def _meant_code(message: object) -> str | None:
    """Code that OpenAI has for what a message says, by its beginning; None where it has none."""
    if not isinstance(message, str):
        return None
    return next((code for code, pattern in _CODES_BY_MESSAGE if pattern.match(message)), None)


def _first_detail(value: object) -> object:
    """Place and message of the first of a list of faults, as FastAPI writes them; any other value as it is."""
    first = value[0] if isinstance(value, list) and value else None
    if not isinstance(first, dict) or not isinstance(first.get("loc"), list):
        return value
    return f"{'.'.join(map(str, first['loc']))}: {first.get('msg')}"


def drop_false_usage(reply: Reply, least_prompt_tokens: int) -> Reply:
    """Reply without its usage if that has fewer tokens than the texts sent and received can have.

    Some gateways report 0 tokens; a cost from such counts would be no cost. A server that cuts prompts at its context
    length counts what it left.
    """
    usage = reply.usage
    if usage is None:
        return reply
    written = [text for text in (reply.text, reply.refusal) if text] if reply.is_completion else []
    least_reply_tokens = least_tokens(*written)
    if usage.prompt_tokens < least_prompt_tokens:
        doubt = f"{usage.prompt_tokens:,} tokens of a prompt with at least {least_prompt_tokens:,}"
    elif usage.completion_tokens < least_reply_tokens:
        doubt = f"{usage.completion_tokens:,} tokens of a reply with at least {least_reply_tokens:,}"
    else:
        return reply
    is_maybe_cut = 0 < usage.prompt_tokens < least_prompt_tokens
    return replace(reply, usage=None, doubt=doubt, is_maybe_cut=is_maybe_cut)


def false_count_sentence(subject: str, reply: Reply) -> str:
    """Sentence about token counts that can't be true. subject: the judge and its address."""
    may = f"; {MAY_BE_CUT}" if reply.is_maybe_cut else ""
    return f"token counts of {subject} can't be true, and their costs are unknown: it counted {reply.doubt}{may}"


def parse_body(content: bytes) -> object:
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
    parts = [part for part in content if isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS]
    return "".join(_text(part.get("text")) or "" for part in parts)


def _called(message: dict[str, Any]) -> str | None:
    """Arguments of the only tool that a message without a text calls."""
    calls = message.get("tool_calls")
    function = calls[0].get("function") if isinstance(calls, list) and len(calls) == 1 else None
    return _text(function.get("arguments")) if isinstance(function, dict) else None


def _refusal(message: dict[str, Any]) -> str | None:
    """Refusal of a message, in its own field or as a part of the content."""
    content = message.get("content")
    parts = [part.get("refusal") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return next((text for value in (message.get("refusal"), *parts) if (text := _text(value))), None)


def name_of(value: object) -> str | None:
    """Short storable text; None for anything but a text."""
    return clean_text(value, MOST_NAME_LENGTH) if isinstance(value, str) else None


def _choices(logprobs: object) -> TokenChoices | None:
    """Candidate tokens at each position of the reply; None unless in the usual shape."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            tuple(
                (str(candidate["token"]), float(candidate["logprob"]))
                for candidate in (token, *(token.get("top_logprobs") or ()))
            )
            for token in content
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(usage: object) -> Usage | None:
    """Usage of a reply; None unless both counts are present: a missing count is not zero tokens.

    Reasoning is billed as a part of the reply, and some endpoints count it in `reasoning_tokens` or `total_tokens`
    alone: the largest reading counts. None for a total that is smaller than its parts: they can't agree.
    """
    if not isinstance(usage, dict):
        return None
    prompt, completion = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    total = count_of(usage.get("total_tokens")) or prompt + completion
    if total < prompt + completion:
        return None
    reasoning = count_of(_details(usage, "completion_tokens_details").get("reasoning_tokens")) or 0
    visible = completion
    completion = max(total - prompt, completion + reasoning if reasoning > completion else completion)
    details = _details(usage, "prompt_tokens_details")
    cached = min(count_of(details.get("cached_tokens")) or count_of(usage.get("prompt_cache_hit_tokens")) or 0, prompt)
    written = count_of(details.get("cache_write_tokens")) or count_of(details.get("cache_creation_tokens")) or 0
    sound = min(count_of(details.get("audio_tokens")) or 0, prompt)
    reasoning = min(max(reasoning, completion - visible), completion)
    return Usage(prompt, cached, completion, min(written, prompt - cached), sound, reasoning, _stated_usd(usage))


def _stated_usd(usage: dict[str, Any]) -> float | None:
    """Dollars that an endpoint says it charged, as OpenRouter does; with a key of one's own, those of the host too.

    Zero states nothing: the list of prices has models that are free.
    """
    amounts = [usage.get("cost"), _details(usage, "cost_details").get("upstream_inference_cost")]
    amounts = amounts if usage.get("is_byok") else amounts[:1]
    numbers = [amount for amount in amounts if isinstance(amount, int | float) and not isinstance(amount, bool)]
    total = sum(numbers) if all(0 <= number < math.inf for number in numbers) else 0
    return float(total) if total > 0 else None


def _details(usage: dict[str, Any], name: str) -> dict[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def count_of(value: object) -> int | None:
    """Count of tokens; None for anything else, whatever an endpoint sends."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return cast(int, value) if is_count else None


UNREADABLE = frozenset({"parse_error", "truncated"})
MOST_SHOWN = 120  # characters of a reply
_PAGE = re.compile(r"\s*<(!doctype html|html)\b", re.IGNORECASE)
_STREAM = re.compile(r"\s*(event:|data:\s*\{)")


def is_page(text: str) -> bool:
    """Whether a text is a page of HTML, such as of a gateway or a login."""
    return _PAGE.match(text) is not None


def describe_unreadable(reply: str | None, status: str, rationale: str | None, *, is_typed: bool = False) -> str:
    """Beginning of an unreadable reply on one line, what is wrong with it, and what to set.

    reply: without the endpoint's key. rationale: fault of the reply. is_typed: whether typed questions were asked.
    """
    reply = reply or ""
    begin = " ".join(reply[: 10 * MOST_SHOWN].split())
    excerpt = repr(begin if len(begin) <= MOST_SHOWN else begin[:MOST_SHOWN] + "...") if begin else "an empty text"
    if is_page(reply):
        return (
            f"a page of HTML, {excerpt}; expected a chat completion: set `base_url` to the API's address, often .../v1"
        )
    if _STREAM.match(reply):
        return (
            f"a stream of events, {excerpt}; expected a whole reply: no stream is asked for, turn it off at the "
            "endpoint"
        )
    if status == "truncated":
        room = "" if begin else "; a model that reasons first may need 8192"
        return f"cut off at its token limit, {excerpt}; expected a whole reply: set a larger `max_tokens`{room}"
    why = "" if rationale is None else f" ({rationale})"
    if is_typed:
        return f"{excerpt}{why}; expected an answer with probabilities to each question: set another `model` or `form`"
    if rationale is not None and isinstance(parse_body(reply.encode("utf-8", "replace")), dict):
        return f"{excerpt}{why}: set another `model`, or with `mode: logprobs` another mode"
    return (
        f"{excerpt}{why}; expected one JSON object with the keys asked for: set another `model`, or a `base_url` whose "
        "server supports structured output (`response_format`)"
    )

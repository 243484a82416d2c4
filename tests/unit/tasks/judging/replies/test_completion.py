"""Bodies of HTTP 200: which tokens are billed, and which errors they hold."""

import json
from typing import Any

import pytest

from gradebook.tasks.judging.replies.completion import (
    describe_unreadable,
    drop_false_usage,
    read_completion,
    read_error,
)
from tests.support.law_over import law_over


def read(usage: Any = None, **choice: Any) -> Any:
    choices = [{"message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"} | choice]
    return read_completion(json.dumps({"choices": choices, "usage": usage}).encode(), 1.0)


def counted(completion: int, total: int | None = None, reasoning: int | None = None) -> dict[str, Any]:
    details = {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return {"prompt_tokens": 100, "completion_tokens": completion, "total_tokens": total} | details


@law_over(
    ("usage", "tokens"),
    [
        (counted(40), 40),
        (counted(40, 0), 40),
        (counted(2_040, 2_140, 2_000), 2_040),  # OpenAI: reasoning is a part of the reply
        (counted(40, 2_140, 2_000), 2_040),  # Grok: beside it
        (counted(40, 2_140), 2_040),  # Gemini: in the total alone
        (counted(40, None, 2_000), 2_040),
        (counted(40, 140, 2_000), 2_040),
        (counted(2_040, 2_140, 2_000) | {"completion_tokens_details": 5}, 2_040),
        (counted(40, 139), None),  # a total below its parts
        ({"prompt_tokens": 100}, None),
        ({"input_tokens": 100, "output_tokens": 40}, None),  # another form's counts are unknown here
    ],
)
def test_the_largest_count_of_a_replys_tokens_is_billed(usage: dict[str, Any], tokens: int | None):
    reply = read(usage)
    assert (reply.usage and reply.usage.completion_tokens) == tokens


@law_over(
    ("calls", "text"),
    [
        ([{"function": {"name": "judgment", "arguments": "{}"}}], "{}"),
        ([{"function": {"arguments": "{}"}}, {"function": {"arguments": "{}"}}], None),  # which of two is not told
        ([{"function": {"arguments": 5}}], None),
    ],
)
def test_the_only_tool_call_of_a_message_without_a_text_is_its_reply(calls: list[Any], text: str | None):
    assert read(message={"content": None, "tool_calls": calls}).text == text


@law_over(
    ("code", "kind", "status"),
    [
        (429, None, 429),
        ("529", None, 529),
        ("rate_limit_exceeded", None, 429),
        (None, "overloaded_error", 503),
        ("context_length_exceeded", "invalid_request_error", 400),
        (200, None, 502),
        (None, None, 502),
    ],
)
def test_an_error_within_a_reply_stands_for_a_status(code: object, kind: str | None, status: int):
    error = read(error={"message": "upstream", "code": code, "type": kind}).error
    assert error is not None and error.status == status


@law_over(
    ("error", "parameter"),
    [
        ({"message": "Unsupported value: 'temperature' does not support 0.", "param": "temperature"}, "temperature"),
        ({"message": "`temperature` is deprecated for this model.", "param": None}, "temperature"),
        ({"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}, "max_tokens"),
        ({"message": "This response_format type is unavailable now"}, "response_format"),
        ({"message": "Invalid schema", "param": "response_format.json_schema"}, "response_format"),
        ({"message": "The temperature of the case is too high for us."}, None),  # words of a prompt
        ({"message": "Unsupported file."}, None),
        (["temperature"], None),
        ({"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1}]}, "seed"),
        ({"detail": [{"loc": ["body", 3], "msg": "Field required", "input": "temperature not supported"}]}, None),
    ],
)
def test_the_parameter_that_an_error_refuses_is_found(error: Any, parameter: str | None):
    assert read_error(json.dumps({"error": error}).encode()).refused_parameter == parameter


@law_over(
    ("error", "code"),
    [
        ({"message": "Model Not Exist", "code": "invalid_request_error"}, "model_not_found"),
        ({"message": "a/b is not a valid model ID", "code": 400}, "model_not_found"),
        ({"message": "The text 'a/b is not a valid model ID' is refused", "code": 400}, "400"),  # words of a prompt
        ({"message": "litellm.BadRequestError: litellm.ContextWindowExceededError: x"}, "context_length_exceeded"),
        ({"message": "Too long", "type": "exceed_context_size_error", "code": 400}, "context_length_exceeded"),
        ({"message": "You exceeded your current quota: metric, limit: 20, model: m", "code": 429}, "429"),
        ({"message": "You exceeded your current quota: metric, limit: 0, model: m", "code": 429}, "insufficient_quota"),
        ({"message": 3, "type": []}, None),
        ("Incorrect API key provided: xa***", "invalid_api_key"),
    ],
)
def test_an_error_has_the_code_that_openai_has_for_it(error: Any, code: str | None):
    assert read_error(json.dumps({"error": error}).encode()).code == code
    assert read_error(json.dumps([{"error": error}]).encode()).code == code


@pytest.mark.parametrize(
    ("prompt_tokens", "doubt"),
    [
        (2_050, "2,050 tokens of a prompt with at least 5,497"),
        (0, "0 tokens of a prompt"),
        (5_500, ""),
    ],
)
def test_a_count_of_tokens_that_cant_be_true_is_a_doubt(prompt_tokens: int, doubt: str):
    reply = drop_false_usage(read({"prompt_tokens": prompt_tokens, "completion_tokens": 40}), 5_497)
    assert ((reply.doubt or "")[: len(doubt)], reply.doubt is None) == (doubt, reply.usage is not None)
    assert reply.is_maybe_cut == (prompt_tokens == 2_050)


@pytest.mark.parametrize(
    ("reply", "rationale", "is_object"),
    [
        ('{"level": "B"}', "found 0.33 as the probability of all labels together, expected at least 0.5", True),
        ('{"level": "excellent"}', "level: found an unknown label", True),
        ("B, I think", "found no JSON", False),
        ("[1]", "found a list", False),
    ],
)
def test_an_object_is_not_said_to_be_none(reply: str, rationale: str, is_object: bool):
    said = describe_unreadable(reply, "parse_error", rationale)
    assert f"({rationale})" in said
    assert ("expected one JSON object" in said) != is_object

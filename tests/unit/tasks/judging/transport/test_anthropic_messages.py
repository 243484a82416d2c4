"""Anthropic's form: bodies, replies, errors and limits, each as the Messages API has it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from gradebook.rubrics.prompts.reply_parser import read_ending
from gradebook.tasks.judging.prices import Usage
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import FORMS
from gradebook.tasks.judging.transport.endpoint import ENDPOINTS, request_body
from tests.support.asked import make_question
from tests.support.law_over import law_over
from tests.support.loopback_anthropic import refusals

CLAUDE = ENDPOINTS["anthropic"]
MARK = {"type": "ephemeral"}
REPLY = {"type": "message", "model": "claude-sonnet-5", "stop_reason": "end_turn", "content": []}
COUNTS = {"input_tokens": 35, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 70}


def settings(**changes: Any) -> JudgeSettings:
    return JudgeSettings(**{"model": "claude-sonnet-4-5", "form": "anthropic"} | changes)


def body_of(judge: JudgeSettings, *, is_shared: bool = False, number: int = 0) -> dict[str, Any]:
    request = replace(make_question(number).request(), is_shared=is_shared)
    return request_body(judge, request, 0, judge.token_limit())


def read(**changes: Any) -> Any:
    return CLAUDE.read("/messages", json.dumps(REPLY | {"usage": COUNTS} | changes).encode(), 1.0)


def refused(message: str, **more: Any) -> Any:
    error = {"type": "invalid_request_error", "message": message} | more
    return CLAUDE.read_error(json.dumps({"type": "error", "error": error}).encode())


def test_every_form_has_a_module_and_an_identity():
    assert ENDPOINTS.keys() == FORMS.keys()
    assert len({JudgeSettings(model="m", form=form).judge_digest for form in FORMS}) == len(FORMS)


def test_a_judge_without_a_form_keeps_its_digest():
    # As computed before there were forms: the ledgers of Claude at its endpoint in OpenAI's form stay paid.
    judge = JudgeSettings(model="claude-sonnet-5", base_url="https://api.anthropic.com/v1")
    assert judge.judge_digest == "368223aaf7ab98162da5dc3b2f725997"


@law_over(
    "changes",
    [
        {},
        {"thinking": 2_000},
        {"thinking": 0},
        {"reasoning_effort": "low", "reply_format": "text"},
        {"model": "claude-3-opus", "reply_format": "tool"},
        {"model": "claude-sonnet-5", "temperature": None},
        {"service_tier": "default", "extra_body": {"top_k": 5}},
    ],
)
def test_the_api_accepts_what_is_sent(changes: dict[str, Any]):
    assert list(refusals(body_of(settings(**changes), is_shared=True))) == []


def test_the_case_is_marked_where_others_ask_of_it_too():
    alone, shared = (body_of(settings(), is_shared=is_shared) for is_shared in (False, True))
    assert [block.get("cache_control") for block in alone["messages"][0]["content"]] == [None]
    assert [block.get("cache_control") for block in shared["messages"][0]["content"]] == [MARK, None]
    assert [block["cache_control"] for block in shared["system"]] == [MARK]
    texts = ["".join(block["text"] for block in body["messages"][0]["content"]) for body in (alone, shared)]
    assert texts[0] == texts[1] == make_question(0).request().messages[1]["content"]
    assert shared["messages"][0]["content"][1]["text"].startswith("\n\nCRITERION\n")


def test_another_set_of_labels_begins_no_other_prompt():
    # Of another case the labels may differ, and another schema empties the cache.
    forms = [json.dumps(body_of(settings(), number=number)["output_config"]) for number in range(3)]
    assert len({*forms}) == 1 and "enum" not in forms[0]
    assert "enum" in json.dumps(make_question(0).request().schema)


def test_images_become_blocks_and_system_messages_one_text():
    parts = [
        {"type": "text", "text": "CASE"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "CRITERION"},
    ]
    messages = [{"role": "system", "content": "One."}, {"role": "system", "content": "Two."}]
    request = Request([*messages, {"role": "user", "content": parts}], None, lambda *_: None, is_shared=True)  # type: ignore[arg-type, return-value]
    body = request_body(settings(), request, 0, 100)
    assert body["system"] == [{"type": "text", "text": "One.\n\nTwo.", "cache_control": MARK}]
    assert [block.get("source") for block in body["messages"][0]["content"][1:3]] == [
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "url", "url": "https://example.org/a.png"},
    ]
    assert [block.get("cache_control") for block in body["messages"][0]["content"]] == [None, None, MARK, None]


@law_over(
    ("changes", "said"),
    [
        ({"seed": 1}, "seed: take it out"),
        ({"verbosity": "low"}, "verbosity: take it out"),
        ({"mode": "logprobs"}, "mode: logprobs"),
        ({"reply_format": "json_object"}, "expected json_schema, tool or text"),
        ({"service_tier": "flex"}, "expected auto or default"),
        ({"temperature": 1.5}, "expected at most 1"),
        ({"temperature": 0, "thinking": 2_000}, "none with `thinking`"),
        ({"thinking": 100}, "expected at least 1024"),
        ({"thinking": 2_000, "max_tokens": 2_000}, "less than `max_tokens`"),
        ({"extra_body": {"cache_control": MARK}}, "cache_control in `extra_body`"),
    ],
)
def test_a_setting_that_the_form_lacks_is_refused(changes: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        settings(**changes)


def test_the_counts_of_a_prompt_add_up():
    text = {"type": "text", "text": "fine"}
    reply = read(content=[{"type": "thinking", "thinking": ""}, text, text])
    assert reply.usage == Usage(35 + 100 + 1000, 1000, 70, 100)
    assert (reply.text, reply.has_thought, reply.refusal) == ("finefine", True, None)
    assert read(usage={"output_tokens": 3}).usage is None
    assert CLAUDE.limited_tokens(reply.usage) == 35 + 100 + 70  # reads of the cache count towards no limit


@law_over(
    ("changes", "status"),
    [
        ({"stop_reason": "end_turn"}, None),
        ({"stop_reason": "tool_use"}, None),
        ({"stop_reason": "max_tokens"}, "truncated"),
        ({"stop_reason": "model_context_window_exceeded"}, "truncated"),
        ({"stop_reason": "refusal"}, "refused"),
        ({"stop_reason": "refusal", "stop_details": {"explanation": "No."}}, "refused"),
    ],
)
def test_each_stop_reason_is_an_ending(changes: dict[str, Any], status: str | None):
    reply = read(**changes)
    ending = read_ending(reply.finish_reason, reply.refusal)
    assert (ending and ending.status) == status


def test_the_input_of_a_tool_is_the_reply():
    tool = {"type": "tool_use", "name": "judgment", "input": {"level": "A"}}
    assert read(content=[{"type": "text", "text": "I call it."}, tool]).text == '{"level":"A"}'
    assert read(content=[tool, tool]).text == ""  # two verdicts are none


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"content": 3}',
        b'{"content": [3], "usage": 3, "stop_reason": {}}',
        b'{"content": [{"text": 3}]}',
    ],
)
def test_a_hostile_body_raises_nothing(body: bytes):
    assert CLAUDE.read("/messages", body, 1.0).usage is None


@law_over(
    ("message", "code", "parameter"),
    [
        ("temperature is deprecated for this model.", None, "temperature"),
        ("`temperature` may only be set to 1 when thinking is enabled", None, "temperature"),
        ("max_tokens: 100000 > 64000, which is the maximum", None, "max_tokens"),
        ('"thinking.type.enabled" is not supported for this model.', None, "thinking"),
        ("output_config.format: Extra inputs are not permitted", None, "response_format"),
        ("output_config.effort: Input should be 'low'", None, "reasoning_effort"),
        ("This model does not support the effort parameter.", None, "reasoning_effort"),
        ("tool_choice: may not force tool use", None, "response_format"),
        ("messages.0.content: the temperature is invalid", None, None),
        ("prompt is too long: 208310 tokens > 200000 maximum", "context_length_exceeded", None),
        ("Your credit balance is too low to access the API.", "insufficient_quota", None),
        ("Output blocked by content filtering policy", "content_filter", None),
    ],
)
def test_errors_have_the_names_of_the_other_form(message: str, code: str | None, parameter: str | None):
    error = refused(message)
    assert error.code == (code or "invalid_request_error")
    if parameter is not None:
        assert error.refused_parameter == parameter
    elif code is None:
        assert error.body.get("param") is None


def test_a_spend_limit_is_no_rate_limit():
    assert refused("Limit", details={"error_code": "enforced_spend_limit_reached"}).code == "insufficient_quota"


def test_limits_are_read():
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-input-tokens-limit": "30000",
        "anthropic-ratelimit-input-tokens-remaining": "-1",
    }
    requests, tokens = (CLAUDE.rate_limit(headers, unit) for unit in ("requests", "tokens"))
    assert requests and (requests.per_minute, requests.remaining) == (50, 49)
    assert tokens and (tokens.per_minute, tokens.remaining) == (30_000, None)
    assert CLAUDE.rate_limit({}, "tokens") is None

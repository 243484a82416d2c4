"""Asking again after a useless reply."""

import copy

import pytest

from gradebook.rubrics.prompts.batched_criteria import PACKED_PROMPT
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, PromptStyle, repair_messages
from gradebook.rubrics.prompts.reply_parser import ReadReply, ReplyFault
from tests.support.law_over import law_over

MESSAGES = [{"role": "system", "content": "You judge."}, {"role": "user", "content": "CASE"}]
STYLES = (DEFAULT_STYLE, PromptStyle("logprobs"), PromptStyle(reply_order="level_first"))


def repaired(reply: str | None, read: ReadReply, style: PromptStyle = DEFAULT_STYLE) -> list[dict[str, str]]:
    return repair_messages(MESSAGES, reply, read, style)


@law_over("style", STYLES)
@law_over("fault", ["not_json", "unknown_label", None])
def test_the_messages_before_stay_as_they_are(style: PromptStyle, fault: ReplyFault | None):
    before = copy.deepcopy(MESSAGES)
    assert repaired("Good.", ReadReply("parse_error", fault=fault), style)[:2] == before == MESSAGES


def test_the_roles_take_turns():
    roles = [message["role"] for message in repaired("Good.", ReadReply("parse_error", fault="not_json"))]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("fault", "words"), [("not_json", "was not one JSON object"), ("unknown_label", "not one of the labels")]
)
def test_the_judge_is_told_what_was_wrong(fault: ReplyFault, words: str):
    assert words in repaired("Good.", ReadReply("parse_error", fault=fault))[-1]["content"]


def test_up_to_three_false_quotes_are_named():
    read = ReadReply("evidence_unverified", "good", fault="unverified", unverified=('a"', "b" * 900, "{fault}", "d"))
    told = repaired("{}", read)[-1]["content"]
    assert f': "a\\"", "{"b" * 300}", "{{fault}}". Judge' in told and '"d"' not in told


def test_a_long_reply_is_cut():
    assert len(repaired("x" * 10_000, ReadReply("parse_error", fault="not_json"))[2]["content"]) == 4_000


def test_a_reply_can_end_no_turn():
    assert repaired("So.<|im_end|>", ReadReply("parse_error"))[2]["content"] == "So.\\u003c|im_end|>"


@pytest.mark.parametrize("reply", [None, "", "  \n"])
def test_no_turn_is_empty(reply: str | None):
    assert repaired(reply, ReadReply("parse_error", fault="not_json"))[2]["content"] == "(no text)"


def test_a_pack_is_asked_for_all_its_judgments_again():
    told = repair_messages(MESSAGES, "{}", ReadReply("parse_error", fault="not_json"), DEFAULT_STYLE, PACKED_PROMPT)
    assert "under each number" in told[-1]["content"] and "`judgments`" in told[-1]["content"]


@pytest.mark.parametrize("style", STYLES)
def test_no_slot_is_sent(style: PromptStyle):
    told = repaired("Good.", ReadReply("parse_error", fault="not_json"), style)[-1]["content"]
    assert "{" not in told and "===" not in told

"""Strangers' text as a judge is shown it, and as quotes are compared."""

import json
import string

import pytest

from gradebook.rubrics.prompts.prompt_text import fold_text, inert_text, shown_json
from tests.support.law_over import law_over

TURN_MARKS = [
    "<|im_end|>",
    "<|endoftext|>",
    "<\uff5cUser\uff5c>",
    "</s>",
    "<s>",
    "<EOS>",
    "<start_of_turn>",
    "</think>",
    "<tool_call>",
    "<extra_id_0>",
    "<<SYS>>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[gMASK]",
]


@law_over("mark", TURN_MARKS)
def test_a_mark_of_a_chat_template_is_not_sent_as_it_stands(mark: str):
    assert mark not in shown_json({"output": f"Fine.{mark}user"})


@law_over("text", [*TURN_MARKS, "\\<|", '\\"[INST]', "\u202e\U000e0041\u2028\x85\x00", "\ud83d", string.printable])
def test_every_text_comes_back_exactly(text: str):
    assert json.loads(shown_json([text])) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "a < b <c> [1] [TODO] <div> x<<2 cout << s",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f680",
    ],
)
def test_ordinary_text_stays_readable(text: str):
    assert inert_text(text) == text


@law_over("hidden", ["\u202e", "\u2066", "\U000e0041", "\u2028", "\x85", "\u2063"])
def test_what_tricks_the_eye_is_shown_as_an_escape(hidden: str):
    assert hidden not in shown_json(hidden) and shown_json(hidden).isascii()


@pytest.mark.parametrize(
    ("text", "folded"),
    [("a \n\t b", "a b"), ("\ufb01ne\u00a0day", "fine day"), ("sa\u200bfe\u00ad\u202e", "safe"), ("Straße", "Straße")],
)
def test_a_text_is_folded_to(text: str, folded: str):
    assert fold_text(text) == folded

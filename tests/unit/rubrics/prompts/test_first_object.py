"""Replies without a schema: the first balanced object with the expected keys."""

import json

import pytest

from gradebook.rubrics.prompts.reply_parser import first_object, read_reply

KEYS = ("evidence", "rationale", "level")
REPLY = json.dumps({"evidence": [], "rationale": "So {it} is.", "level": "K7"})
LABELS = {"K7": "good", "Q2": "bad"}


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"Let me think: {{the output}} has [1]. So:\n{REPLY}\nThat is all [sic] {{}}.",
        f'First draft: {{"level": "Q2"}}. Final: {REPLY}',
        f"```json\n{REPLY}\n```\nand again {REPLY.replace('K7', 'Q2')}",
        f'{{"unbalanced": {REPLY}',
        f"{{{{{{ {REPLY}",
    ],
)
def test_the_first_object_with_the_keys_counts(text: str):
    assert first_object(text, KEYS) == REPLY


@pytest.mark.parametrize(
    "text",
    ["", "K7", '{"level": "K7"}', REPLY[:-1], REPLY.replace('"level"', '"level": "Q2", "level"'), "{" * 5_000],
)
def test_anything_else_stays_what_it_is(text: str):
    assert first_object(text, KEYS) == text


def test_an_object_from_the_judged_output_has_no_label():
    text = f"The output says {REPLY.replace('K7', 'best')}, which is an order."
    assert read_reply(first_object(text, KEYS), "stop", None, LABELS, "").status == "parse_error"

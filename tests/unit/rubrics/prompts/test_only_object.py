"""Replies without a schema: the object with the expected keys, where there is one verdict."""

import json

from gradebook.rubrics.prompts.reply_parser import only_object, read_reply
from tests.support.law_over import law_over

KEYS = ("evidence", "rationale", "level")
REPLY = json.dumps({"evidence": [], "rationale": "So {it} is.", "level": "K7"})
OTHER = REPLY.replace("K7", "Q2")
LABELS = {"K7": "good", "Q2": "bad"}


@law_over(
    "text",
    [
        REPLY,
        f"Let me think: {{the output}} has [1]. So:\n{REPLY}\nThat is all [sic] {{}}.",
        f'First draft: {{"level": "Q2"}}. Final: {REPLY}',
        f"<think>Draft: {OTHER}</think>{REPLY}",
        f"Draft: {OTHER}\n</think>\n{REPLY}",
        f"Draft: {REPLY.replace('So', 'As')} Final: {REPLY}",  # the same verdict
        f'{{"unbalanced": {REPLY}',
        f"{{{{{{ {REPLY}",
    ],
)
def test_the_only_object_with_the_keys_counts(text: str):
    assert only_object(text, KEYS) == REPLY


@law_over(
    "text",
    [
        *("", "K7", '{"level": "K7"}', REPLY[:-1], REPLY.replace('"level"', '"level": "Q2", "level"'), "{" * 5_000),
        f"Draft: {REPLY} Final: {OTHER}",
        f"Draft: {REPLY} Final: " + OTHER[:-1] + ', "score": 1}',
        f"Draft: {REPLY} Final: {OTHER[:-1]}",
        f"{{'draft': {REPLY}, 'final': {OTHER}}}",
    ],
)
def test_anything_else_stays_what_it_is_and_is_unreadable(text: str):
    assert only_object(text, KEYS) == text
    assert read_reply(text, "stop", None, LABELS, "").status == "parse_error"


def test_an_object_from_the_judged_output_has_no_label():
    text = f"The output says {REPLY.replace('K7', 'best')}, which is an order."
    assert read_reply(only_object(text, KEYS), "stop", None, LABELS, "").status == "parse_error"

"""Prompts as readable turns."""

import json

from gradebook.tasks.reporting.sections.answers import turns_of
from tests.support.law_over import law_over


def turns(prompt):
    return [(turn.role, "".join(piece.text for piece in turn.segments)) for turn in turns_of(prompt)]


def test_chat_messages_are_turns():
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    assert turns(json.dumps(messages)) == [("system", "Be kind."), ("user", "Hello")]


def test_message_parts_and_tool_calls_are_shown():
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": "[image 1: 2x2]"}, {"type": "other"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": [1]}]
    assert turns(json.dumps(messages)) == [
        ("user", 'Look:\n[image 1: 2x2]\n{"type": "other"}'),
        ("assistant", '{"tool_calls": [1]}'),
    ]


@law_over("prompt", ["What?", "[1] is what?", '["a"]', '[{"no": "role"}]', "[" * 100_000, "[]"])
def test_a_prompt_that_is_no_chat_is_one_text(prompt):
    (turn,) = turns_of(prompt)
    assert turn.role is None


def test_without_a_prompt_there_are_no_turns():
    assert turns_of(None) == turns_of("") == ()


def test_a_long_conversation_shows_its_beginning_and_its_end():
    messages = [{"role": "user", "content": f"turn {number}"} for number in range(50)]
    turns = turns_of(json.dumps(messages))
    assert [turn.left_out for turn in turns] == [0, 0, 30, *[0] * 18]  # 50 - 20
    assert turns[-1].segments[0].text == "turn 49"


def test_a_conversation_of_long_turns_stays_readable():
    messages = [{"role": "user", "content": "x" * 9_000} for _ in range(4)]
    assert [len(turn.segments[0].text) for turn in turns_of(json.dumps(messages))] == [1_500] * 4  # 6,000 / 4

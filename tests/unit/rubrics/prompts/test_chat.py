"""Chat prompts as a judge sees them."""

import json

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.chat import read_chat
from gradebook.rubrics.prompts.prompt import Case, case_digest, render_messages
from tests.support.law_over import law_over

CRITERION = Criterion.model_validate(
    {"id": "tone", "description": "Is it warm?", "method": {"type": "judge"}, "scale": {"min": 1, "max": 2}}
)
ARGUMENTS = {"city": 'the "old" town', "days": [1, 2]}
MESSAGES = [
    {"content": "Plan a trip.", "role": "user"},
    {
        "content": None,
        "role": "assistant",
        "tool_calls": [{"function": {"arguments": json.dumps(ARGUMENTS), "name": "weather"}, "id": "c1"}],
    },
]


def case_section(prompt: str | None) -> str:
    content: str = render_messages(Case(prompt, "Pack a coat."), CRITERION, "0" * 32)[1]["content"]
    return content.split("\n")[1]


def call_of(arguments: str) -> str:
    message = {"role": "assistant", "function_call": {"name": "f", "arguments": arguments}}
    return case_section(json.dumps([message]))


def test_messages_are_shown_as_messages_with_the_role_first():
    shown = case_section(json.dumps(MESSAGES, sort_keys=True))
    assert shown.startswith('{"prompt": [{"role": "user", "content": "Plan a trip."}, {"role": "assistant", ')


def test_the_arguments_of_a_tool_call_are_escaped_once():
    assert '"arguments": {"city": "the \\"old\\" town", "days": [1, 2]}' in case_section(json.dumps(MESSAGES))


@law_over("arguments", ["{", "7", '{"a": 1, "a": 2}', '{"a": 1e400}', '{"a": NaN}', '{"a": 0.10}', "[" * 100_000])
def test_arguments_that_values_would_not_keep_stay_a_text(arguments):
    assert json.loads(call_of(arguments))["prompt"][0]["function_call"]["arguments"] == arguments


@law_over("prompt", ["Why?", "[1] is what?", '["a"]', '[{"no": "role"}]', "[]", "[" * 100_000, None])
def test_any_other_prompt_is_shown_and_keyed_as_before(prompt):
    assert read_chat(prompt) is None
    assert json.loads(case_section(prompt)).get("prompt") == prompt
    assert case_digest(Case(prompt, "So.")) == case_digest(Case(prompt, "So."), shows_chat=False)


def test_a_judgment_of_a_chat_prompt_has_another_key_than_before():
    case = Case(json.dumps(MESSAGES), "So.")
    assert case_digest(case) != case_digest(case, shows_chat=False)

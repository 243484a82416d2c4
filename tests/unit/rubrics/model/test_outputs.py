import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.model.outputs import (
    OUTPUT_COLUMNS,
    SHARD_SCHEMA,
    Output,
    OutputRow,
    describe_value,
    misfit_reason,
    output_id,
    read_field,
)
from gradebook.rubrics.model.steps import EXPECTED, STEP_KINDS, Step, StepRow, read_stored_steps, steps_array
from tests.support.law_over import law_over

ROW = {"case_id": "c1", "model": "m", "output": "yes"}

texts = st.text(max_size=5)
missing_or_texts = st.none() | texts
steps = st.builds(
    Step,
    kind=st.sampled_from(STEP_KINDS),
    name=missing_or_texts,
    input=missing_or_texts,
    output=missing_or_texts,
    error=missing_or_texts,
    parent_index=st.none() | st.integers(0, 3),
    started_at=st.none() | st.integers(0, 2**50),
    latency_ms=st.none() | st.floats(0, 9),
    tokens=st.none() | st.integers(0, 9),
    cost_usd=st.none(),
    span_id=missing_or_texts,
    agent=missing_or_texts,
)
outputs = st.builds(
    Output,
    case_id=texts,
    model=texts,
    checkpoint=missing_or_texts,
    sample_index=st.integers(0, 3),
    prompt=missing_or_texts,
    output=texts,
    reference=missing_or_texts,
    context=st.none() | st.lists(texts, max_size=3),
    metadata=missing_or_texts,
    criteria=missing_or_texts,
    cluster=missing_or_texts,
    steps=st.none() | st.lists(steps, max_size=2).map(tuple),
)


def reason_of(**changes: object) -> str:
    row = ROW | changes
    with pytest.raises(ValidationError) as caught:
        OutputRow.model_validate(row)
    return misfit_reason(row, caught.value)


@given(outputs, outputs)
def test_two_outputs_share_an_id_only_where_every_column_is_the_same(first, second):
    assert (output_id(first) == output_id(second)) == (first == second)


@given(outputs, outputs, st.sampled_from(OUTPUT_COLUMNS))
def test_an_id_changes_with_each_column(first, second, column):
    changed = first._replace(**{column: getattr(second, column)})
    assert (output_id(first) == output_id(changed)) == (first == changed)


@given(st.lists(st.none() | st.lists(steps, max_size=3).map(tuple), max_size=3))
def test_steps_come_back_from_their_column_as_they_went_in(column):
    assert [read_stored_steps(stored) for stored in steps_array(column).to_pylist()] == column


def test_an_id_is_32_hex_digits_and_the_same_on_every_machine():
    output = Output("c1", "m", None, 0, None, "yes", None, None, None, None)
    # printf '2,1,-,1,-,3,-,-,-,-:c1m0yes' | b2sum -l 128
    assert output_id(output) == "1ad850754deb1a151b528e6c7a08864c"


def test_a_missing_context_is_not_an_empty_one():
    output = Output("c1", "m", None, 0, None, "yes", None, None, None, None)
    assert output_id(output) != output_id(output._replace(context=[]))


def test_text_that_moves_from_one_column_to_the_next_changes_the_id():
    output = Output("ab", "c", None, 0, None, "yes", None, None, None, None)
    assert output_id(output) != output_id(output._replace(case_id="a", model="bc"))


def test_a_stored_output_has_the_columns_of_the_shard_but_the_id():
    assert tuple(SHARD_SCHEMA.names) == ("output_id", *OUTPUT_COLUMNS)


def test_an_output_of_null_does_not_fit():
    assert reason_of(output=None) == "output: found null, expected text"


def test_an_empty_output_fits():
    assert OutputRow.model_validate(ROW | {"output": ""}).output == ""


def test_a_nul_character_is_text():
    assert OutputRow.model_validate(ROW | {"output": "a\0b"}).output == "a\0b"


def test_a_lone_surrogate_has_no_id():
    output = Output("c1", "m", None, 0, None, "a\ud800", None, None, None, None)
    with pytest.raises(UnicodeEncodeError):
        output_id(output)


@law_over(
    ("changes", "reason"),
    [
        ({"output": 3}, "output: found the number 3, expected text"),
        ({"output": True}, "output: found true, expected text"),
        ({"case_id": ""}, "case_id: found empty text, expected text (not empty) or an integer"),
        ({"case_id": "a\0b"}, "case_id: found a text with a null character, expected none in a name"),
        ({"model": "\0"}, "model: found a text with a null character, expected none in a name"),
        ({"checkpoint": "1\0"}, "checkpoint: found a text with a null character, expected none in a name"),
        ({"cluster": "\0c"}, "cluster: found a text with a null character, expected none in a name"),
        ({"case_id": True}, "case_id: found true, expected text (not empty) or an integer"),
        ({"case_id": 1.5}, "case_id: found the number 1.5, expected text (not empty) or an integer"),
        ({"model": 4}, "model: found the number 4, expected text (not empty)"),
        ({"checkpoint": 1.0}, "checkpoint: found the number 1.0, expected text or an integer"),
        ({"sample_index": "1"}, 'sample_index: found the text "1", expected an integer from 0 to 2147483647'),
        ({"sample_index": -1}, "sample_index: found the number -1, expected an integer from 0 to 2147483647"),
        (
            {"sample_index": 2**31},
            "sample_index: found the number 2147483648, expected an integer from 0 to 2147483647",
        ),
        ({"context": ["a", 1]}, "context: found a list of 2, expected text or a list of texts"),
        ({"metadata": []}, "metadata: found a list of 0, expected an object"),
        ({"criteria": {}}, "criteria: found an object, expected a list of objects"),
    ],
)
def test_a_reason_says_what_was_found_and_what_was_expected(changes, reason):
    assert reason_of(**changes) == reason


@pytest.mark.parametrize("prompt", [[], [{"content": "Hi"}], ["Hi"], 7])
def test_a_prompt_is_text_or_messages_with_a_role(prompt):
    assert reason_of(prompt=prompt).endswith("expected text or a list of chat messages, each an object with a role")


def test_a_reason_names_every_column_that_does_not_fit_once():
    assert reason_of(model=None, context=[1, 2]) == (
        "model: found null, expected text (not empty); context: found a list of 2, expected text or a list of texts"
    )


def test_a_column_that_is_not_there_is_found_to_be_nothing():
    with pytest.raises(ValidationError) as caught:
        OutputRow.model_validate({"case_id": 1, "model": "m"})
    assert misfit_reason({"case_id": 1, "model": "m"}, caught.value) == "output: found nothing, expected text"


def test_a_long_text_is_shown_by_its_first_forty_characters():
    assert describe_value("x" * 100) == f'the text "{"x" * 40}..."'


@law_over(
    ("steps", "reason"),
    [
        ("x", f'found the text "x", expected a list of steps, each an object with a kind: {", ".join(STEP_KINDS)}'),
        ([{}], f"step 0 has no kind, expected one of {', '.join(STEP_KINDS)}"),
        ([{"kind": "tool"}, 5], "step 1: found the number 5, expected an object"),
        ([{"kind": "dance"}], f'step 0, kind: found the text "dance", expected one of {", ".join(STEP_KINDS)}'),
        ([{"kind": "tool", "tokens": -1}], "step 0, tokens: found the number -1, expected a whole number, 0 or more"),
        ([{"kind": "tool", "parent_index": 0}], "step 0 has the parent_index 0, expected an earlier step"),
        ([{"kind": "tool", "step_index": 1}], "step 0 has the step_index 1, expected its place, counted from 0"),
        ([{"kind": "tool", "tool": "x"}], f"step 0 has the key tool, expected {', '.join(StepRow.model_fields)}"),
        ([{"kind": "tool"}] * 100_001, "found 100,001, expected at most 100,000 of one output"),
        (
            [{"kind": "tool", "started_at": "2026-11-25T09:30"}],
            f'step 0, started_at: found the text "2026-11-25T09:30", expected {EXPECTED["started_at"]}',
        ),
        (  # in the year 10000, by UTC
            [{"kind": "tool", "started_at": "9999-12-31T23:00:00-02:00"}],
            f'step 0, started_at: found the text "9999-12-31T23:00:00-02:00", expected {EXPECTED["started_at"]}',
        ),
    ],
)
def test_steps_that_do_not_fit_give_the_first_fault(steps, reason):
    assert reason_of(steps=steps) == f"steps: {reason}"


@law_over(
    ("output", "path", "text", "fault"),
    [
        ('{"reply": "Hi"}', "reply", "Hi", None),
        ('{"a": {"b": [1, {"c": "x"}]}}', "a.b.1.c", "x", None),
        ('{"reply": ""}', "reply", "", None),
        ('{"reply": {"á": 1.50}}', "reply", '{"á": 1.5}', None),
        ('{"reply": false}', "reply", "false", None),
        ('{"reply": null}', "reply", None, "no field reply"),
        ('["x"]', "1", None, "no field 1"),
        ('{"a": "text"}', "a.0", None, "no field a.0"),
        ("Hi", "reply", None, "no JSON"),
        ("[" * 100_000, "0", None, "no JSON"),
    ],
)
def test_a_field_is_found_by_its_path_or_the_reason_is_said(output, path, text, fault):
    found, reason = read_field(output, path)
    assert found == text
    assert reason is None if fault is None else reason.startswith("no_field: ") and fault in reason

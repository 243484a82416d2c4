"""Rubrics as YAML: how they look, and that every text, number and key is read back as it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.files.dump import WIDEST_TEXT, rubric_values, rubric_yaml, values_yaml
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.yaml_lines import read_yaml
from tests.support.law_over import law_over
from tests.support.rubric_strategies import NASTY, json_values, texts

WRITTEN = """\
id: reply
version: 1.0.0
pass_threshold: 0.7
criteria:
  - id: tone
    description: Kind?
    method: {type: judge}
    weight: 2
    levels:
      - {id: bad, score: 0, description: "Blames, or mocks."}
      - {id: good, score: 1, indicators: [thanks once, no jargon]}
  - id: length
    description: Short?
    method: {type: check, check: length_words, settings: {max: 200}}
"""
LONG = (
    "Names what the customer said, answers it in the first sentence, and says what happens next and when, with a date."
)


def read(text: str) -> Any:
    written = read_yaml(text, "written.yaml")
    assert written.faults == ()
    return written.values


def written(value: Any) -> str:
    return values_yaml({"a": value}).removeprefix("a:").strip()


def rubric() -> Rubric:
    return Rubric.model_validate(read(WRITTEN))


def test_a_rubric_is_written_as_a_person_would():
    assert rubric_yaml(rubric()) == WRITTEN


def test_values_leave_defaults_out_and_use_the_names_of_the_file():
    values = {"id": "a", "description": "b", "gate": False, "method": {"type": "schema", "schema": {"type": "object"}}}
    plain = Rubric.model_validate({"id": "r", "version": "1.0.0", "missing": "null", "criteria": [values]})
    del values["gate"]
    assert rubric_values(plain) == {"id": "r", "version": "1.0.0", "criteria": [values]}


@law_over("name", shipped_rubrics())
def test_a_shipped_rubric_is_written_as_the_same_version(name: str):
    original = read_rubric(name)
    assert rubric_digest(Rubric.model_validate(read(rubric_yaml(original)))) == rubric_digest(original)


@law_over("text", NASTY)
def test_a_text_is_read_back_as_it_was(text: str):
    assert read(values_yaml({"a": text, text: [text, {"b": text}]})) == {"a": text, text: [text, {"b": text}]}


@given(st.dictionaries(texts, json_values, min_size=1, max_size=3))
def test_values_are_read_back_as_they_were_and_in_their_order(values: dict[str, Any]):
    again = read(values_yaml(values))
    assert again == values
    assert list(again) == list(values)


@law_over("text", ["yes", "1.0", "12:30", "null", "0x1", "1e5", "0o17", "y", "2024-01-01", "a: b", "#"])
def test_a_text_that_another_reader_could_take_for_something_else_is_quoted(text: str):
    assert written(text) == f'"{text}"'


@law_over("text", ["1.0.0", "Is it kind?", "it's", "10 words", "😀", "no_pii"])
def test_a_text_that_can_be_nothing_else_is_not(text: str):
    assert written(text) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1e-7, "1.0e-07"), (1.0, "1"), (0.25, "0.25"), (1e300, "1.0e+300"), (10**20, "1" + "0" * 20)]
)
def test_a_number_is_written_in_decimals(number: float, text: str):
    assert written(number) == text
    assert read(values_yaml({"a": number})) == {"a": number}


def test_the_points_of_a_scale_stand_without_quotes():
    assert written({"min": 1, "max": 2, "points": {"1": "Cold.", "2": "Warm."}}).endswith("{1: Cold., 2: Warm.}}")


def test_a_long_text_is_folded():
    lines = values_yaml({"description": LONG}).splitlines()
    assert lines[0] == "description: >-"
    assert max(map(len, lines)) <= WIDEST_TEXT
    assert read(values_yaml({"description": LONG})) == {"description": LONG}


def test_a_text_of_lines_is_written_line_by_line():
    assert values_yaml({"a": "one\n\ntwo"}) == "a: |-\n  one\n\n  two\n"


def test_control_characters_are_escaped():
    assert written("\x00\x07\x85") == '"\\0\\a\\N"'


def test_a_mapping_stands_on_one_line_as_long_as_that_is_short():
    # "a: {b: xx..}" has 8 columns beside the text: 102 fill the 110, one more does not fit
    assert values_yaml({"a": {"b": "x" * 102}}).count("\n") == 1
    assert values_yaml({"a": {"b": "x" * 103}}).count("\n") == 2


def test_a_text_that_ends_a_bracket_too_soon_is_quoted():
    assert written(["a, b", "c]"]) == '["a, b", "c]"]'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), r"a\[0\]: found nan, expected a finite number"),
        ({2.5: "half"}, r"a\[0\]: found the key 2.5, expected text"),
        ({3}, r"a\[0\]: found a value of type set"),
        ("\ud800", "found half of a surrogate pair"),
    ],
)
def test_what_yaml_can_not_hold_is_refused_with_its_place(value: Any, words: str):
    with pytest.raises(RubricError, match=words):
        values_yaml({"a": [value]})


@pytest.mark.parametrize(("depth", "is_written"), [(49, True), (50, False), (5000, False)])
def test_what_is_nested_deeper_than_a_file_may_be_is_refused(depth: int, is_written: bool):
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    if is_written:
        assert read(values_yaml({"a": nested})) == {"a": nested}
    else:
        with pytest.raises(RubricError, match="found more than 50 levels of nesting"):
            values_yaml({"a": nested})

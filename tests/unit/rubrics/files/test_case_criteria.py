"""Criteria that a row brings along."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.files.case_criteria import (
    CASE_CRITERIA_SCHEMA,
    case_criteria_fault,
    case_criteria_table,
    case_work_fault,
    read_case_criterion,
)
from tests.support.law_over import law_over
from tests.support.rubric_strategies import json_values, mappings

BRIEF: dict[str, Any] = {
    "id": "brief",
    "description": "At most 9 words.",
    "method": {"type": "check", "check": "length_words", "settings": {"max": 9}},
}
KIND: dict[str, Any] = {"id": "kind", "description": "Is it kind?", "method": {"type": "judge"}}
LOW: dict[str, Any] = {"id": "low", "score": 0}
HALF: dict[str, Any] = {"id": "half", "score": 0.5}
KEYS = ("id", "weight", "threshold", "gate", "levels", "scale", "method", "metadata", "category", "use")


def nested(depth: int) -> dict[str, Any]:
    """Mappings, one in the other."""
    deep: dict[str, Any] = {"a": 1}
    for _ in range(depth - 1):
        deep = {"a": deep}
    return deep


def test_id_description_and_method_are_enough():
    assert case_criteria_fault([BRIEF, KIND]) == ""


def test_an_id_may_hold_a_colon():
    assert case_criteria_fault([BRIEF | {"id": "length_constraints:number_words"}]) == ""


def searching(pattern: str) -> dict[str, Any]:
    return BRIEF | {"method": {"type": "check", "check": "matches_regex", "settings": {"pattern": pattern}}}


def shaped(schema: dict[str, Any]) -> dict[str, Any]:
    return BRIEF | {"method": {"type": "schema", "schema": schema}}


@law_over(
    ("values", "fault"),
    [
        ([BRIEF, BRIEF], "criteria[1].id: found 'brief', which the row has already, expected another"),
        ([BRIEF | {"id": "tone"}], "criteria[0].id: found 'tone', which the rubric has already, expected another"),
        ([{"id": "a"}], "criteria[0]: found no 'description', expected one; criteria[0]: found no 'method'"),
        ([BRIEF | {"weight": "x"}], "criteria[0].weight: found 'x', expected a number"),
        ([BRIEF | {"method": {"type": "check", "check": "nope"}}], "criteria[0].method.check: found the check 'nope'"),
        ([BRIEF | {"method": {"type": "schema", "schema": {"$ref": "http://x"}}}], "criteria[0].method.schema: $ref"),
        ([BRIEF | {"method": {"type": "similarity"}}], "criteria[0].method: found similarity, which no row may"),
        ([BRIEF | {"method": {"type": "claims"}}], "criteria[0].method: found claims, which no row may choose"),
        (
            [searching("(.{1,31}){1,31}y")],
            "criteria[0].method.settings.pattern: found '(.{1,31}){1,31}y', whose repeats match 1,922 places",
        ),
        (
            [shaped({"items": {"pattern": "(.?){400}"}, "patternProperties": {"a{300}": {}}})],
            "criteria[0].method: found patterns whose repeats match 1,100 places, expected at most 1,000",
        ),
        (
            [searching(".{0,900}") | {"id": f"a{place}"} for place in range(12)],
            "criteria: found patterns whose repeats match 10,800 places, expected at most 10,000",
        ),
        ([7], "criteria[0]: found 7, expected a mapping"),
        ([BRIEF | {"id": "1x"}], "criteria[0].id: found '1x', expected letters, digits, _, ., : and -, a letter first"),
        ([BRIEF | {"weight": True}], "criteria[0].weight: found true"),
        ([BRIEF | {"threshold": True}], "criteria[0].threshold: found true"),
        ([BRIEF | {"levels": [LOW, LOW | {"id": "b", "score": True}]}], "criteria[0].levels[1].score: found true"),
        ([BRIEF | {"levels": [LOW, HALF], "threshold": 1}], "criteria[0].threshold: found 1, expected at most 0.5"),
        (
            [BRIEF | {"levels": [LOW, HALF | {"labl": "b"}]}],
            "criteria[0].levels[1]: found the unknown key 'labl', expected one of description, id, indicators, label",
        ),
        (
            [BRIEF | {"scale": {"mim": 1}}],
            "criteria[0].scale: found the unknown key 'mim', expected one of labels, max, min, points",
        ),
        (
            [KIND | {"method": {"type": "judge", "max_token": 1}}],
            "criteria[0].method: found the unknown key 'max_token', expected one of can_abstain, examples, field, g",
        ),
        ([KIND | {"method": {"type": "judge", "max_tokens": 0}}], "criteria[0].method.max_tokens: found 0, expected"),
    ],
)
def test_what_does_not_fit_is_told(values: list[Any], fault: str):
    assert case_criteria_fault(values, {"tone"})[: len(fault)] == fault


@pytest.mark.parametrize("depth", [60, 200, 5_000])
def test_deep_nesting_is_told(depth: int):
    assert case_criteria_fault([KIND, BRIEF | {"metadata": nested(depth)}]) == (
        "criteria[1]: found more than 50 levels of nesting, expected fewer"
    )


def test_what_is_let_pass_at_its_deepest_has_a_row():
    values = [BRIEF | {"metadata": nested(49)}]  # the criterion itself is the fiftieth level
    assert case_criteria_fault(values) == ""
    assert case_criteria_table(["x"], [json.dumps(values)]).num_rows == 1


@given(st.lists(json_values | mappings({}, dict.fromkeys(KEYS, json_values)).map(BRIEF.__or__), max_size=3))
def test_any_criteria_of_a_row_end_in_words_or_in_the_table(values: list[Any]):
    text = json.dumps(values)
    if case_criteria_fault(json.loads(text), is_unscored_allowed=True) == "":
        assert case_criteria_table(["x"], [text]).num_rows == len(values)


def test_a_row_can_not_use_a_criterion_of_another_rubric():
    fault = case_criteria_fault([BRIEF | {"use": "tone"}])
    assert fault.startswith("criteria[0]: found the unknown key 'use', expected one of ")
    assert " use" not in fault.partition("expected")[2]


def test_a_method_that_nothing_scores_may_be_allowed():
    assert case_criteria_fault([BRIEF | {"method": {"type": "claims"}}], is_unscored_allowed=True) == ""


def test_many_faults_are_told_in_short():
    assert case_criteria_fault([{}] * 9).count("; ") == 2  # the 3 keys that the first lacks
    assert case_criteria_fault([{"unknown": 1}]).endswith("and 1 more")  # 3 are told
    assert case_criteria_fault([BRIEF | dict.fromkeys("abcdefghijkl", 1)]).endswith("and more")


def test_the_table_has_a_row_an_output_and_criterion():
    table = case_criteria_table(["x", "y", "z"], [json.dumps([BRIEF, KIND]), None, json.dumps([KIND])])
    assert table.schema == CASE_CRITERIA_SCHEMA
    found = list(zip(table["output_id"].to_pylist(), table["criterion_id"].to_pylist(), strict=True))
    assert found == [("x", "brief"), ("x", "kind"), ("z", "kind")]


def test_a_criterion_weighs_1_and_a_gate_nothing():
    rows = case_criteria_table(["x"], [json.dumps([KIND, BRIEF | {"gate": True}])]).to_pylist()
    assert [(row["weight"], row["is_gate"], row["gate_threshold"]) for row in rows] == [(1, False, 1), (0, True, 1)]


def test_the_body_is_the_criterion():
    (row,) = case_criteria_table(["x"], [json.dumps([BRIEF])]).to_pylist()
    assert read_case_criterion(row["body"]).model_dump(exclude_defaults=True) == BRIEF


def test_patterns_over_long_texts_are_refused_by_places_times_characters():
    text = json.dumps([searching(".{0,900}")])
    assert case_work_fault(text, 222_222) is None  # 900 x 222,222 = 199,999,800
    assert case_work_fault(text, 222_223) == (
        "criteria: found patterns whose repeats match 900 places, over texts of 222,223 characters, "
        "expected at most 222,222 characters"
    )
    assert case_work_fault(json.dumps([BRIEF]), 10**12) is None

"""Digests that see the meaning and not the writing, and differences in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import (
    canonical_body,
    describe_difference,
    find_differences,
    rubric_digest,
    rubric_from_body,
)
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over

FLOW = """
id: reply
version: 1.0.0
criteria:
  - {id: tone, description: Kind?, weight: 1, method: {type: judge},
     levels: [{id: bad, score: 0}, {id: good, score: 1}]}
"""
BLOCK = """# the same rubric, written at length
criteria:
  - levels:
      - score: 0.0
        id: "bad"
      - {score: 1.0, id: 'good'}
    method:
      type: judge
    gate: false
    weight: 1.0
    description: >-
      Kind?
    id: tone
version: "1.0.0"
missing: null
id: reply
"""
TONE = {
    "id": "tone",
    "description": "Kind?",
    "weight": 0.4,
    "method": {"type": "judge"},
    "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
}
LEVEL_LINE = "criteria[tone].levels[bad].score: 0 -> 0.1"
LENGTH = {
    "id": "length",
    "description": "Short?",
    "method": {"type": "check", "check": "length_words", "settings": {"max": 200}},
}


def rubric(*criteria: dict[str, Any], **changes: Any) -> Rubric:
    return Rubric.model_validate({"id": "reply", "version": "1.0.0", "criteria": criteria or (TONE, LENGTH)} | changes)


def changed(**changes: Any) -> Rubric:
    return rubric(TONE | changes, LENGTH)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(-1e9, 1e9)
    | st.text("aé ✓\"'\n\\", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.", max_size=3), inner, max_size=3),
    max_leaves=8,
)
rubrics = st.builds(
    rubric,
    st.floats(0.01, 10).map(lambda weight: TONE | {"weight": weight}),
    st.just(LENGTH),
    metadata=st.dictionaries(st.text("abc.", max_size=3), plain_values, max_size=3),
    pass_threshold=st.none() | st.floats(0, 1),
)


def test_a_digest_does_not_see_how_the_yaml_is_written():
    assert rubric_digest(parse_rubric(FLOW, "a")) == rubric_digest(parse_rubric(BLOCK, "b"))


def test_a_digest_is_32_hex_digits():
    digest = rubric_digest(rubric())
    assert len(digest) == 32
    assert set(digest) <= set("0123456789abcdef")


def test_a_digest_stays_what_it_was_in_lakes_that_exist():
    # a change of this value makes every rubric that a lake holds look edited
    assert rubric_digest(parse_rubric(FLOW, "a")) == "00bc8a3e7697261115a1947ddd11fef6"


def test_a_whole_number_and_its_float_are_one_value():
    whole, broken = rubric(metadata={"a": [1, {"b": 2}]}), rubric(metadata={"a": [1.0, {"b": 2.0}]})
    assert rubric_digest(whole) == rubric_digest(broken)


def test_a_canonical_body_is_json_with_sorted_keys_and_no_spaces():
    levels = '[{"id":"bad","score":0},{"id":"good","score":1}]'
    criterion = f'{{"description":"Kind?","id":"tone","levels":{levels},"method":{{"type":"judge"}},"weight":1}}'
    assert canonical_body(parse_rubric(FLOW, "a")) == f'{{"criteria":[{criterion}],"id":"reply","version":"1.0.0"}}'


def test_true_and_1_are_two_values():
    assert rubric_digest(rubric(metadata={"a": True})) != rubric_digest(rubric(metadata={"a": 1}))


def test_the_order_of_criteria_is_a_part_of_the_rubric():
    assert rubric_digest(rubric(TONE, LENGTH)) != rubric_digest(rubric(LENGTH, TONE))


def test_a_canonical_body_leaves_defaults_out():
    body = json.loads(canonical_body(rubric(LENGTH)))
    assert body["criteria"][0].keys() == {"id", "description", "method"}


@given(rubrics)
def test_a_rubric_comes_back_from_its_body_with_the_same_digest(original: Rubric):
    assert rubric_digest(rubric_from_body(canonical_body(original))) == rubric_digest(original)


def test_a_body_with_unknown_keys_is_refused_in_words():
    with pytest.raises(RubricError, match="found the unknown key 'later'"):
        rubric_from_body(canonical_body(rubric()).replace("{", '{"later":1,', 1))


@law_over(
    ("new", "line"),
    [
        (changed(weight=0.5), "criteria[tone].weight: 0.4 -> 0.5"),
        (changed(weight=None), "criteria[tone].weight: 0.4 -> none"),
        (changed(levels=[TONE["levels"][0] | {"score": 0.1}, TONE["levels"][1]]), LEVEL_LINE),
        (changed(levels=[*TONE["levels"], {"id": "best", "score": 1}]), "criteria[tone].levels[best]: added"),
        (changed(description="Warm?"), "criteria[tone].description: Kind? -> Warm?"),
        (rubric(TONE), "criteria[length]: removed"),
        (rubric(TONE, LENGTH, LENGTH | {"id": "size"}), "criteria[size]: added"),
        (rubric(LENGTH, TONE), "criteria: order tone, length -> length, tone"),
        (rubric(pass_threshold=0.7), "pass_threshold: none -> 0.7"),
        (rubric(metadata={"a": None}), "metadata.a: absent -> none"),
        (rubric(version="1.1.0"), "version: 1.0.0 -> 1.1.0"),
    ],
)
def test_a_difference_is_one_plain_line(new: Rubric, line: str):
    assert describe_difference(rubric(), new) == [line]


def test_settings_are_compared_key_by_key():
    stricter = LENGTH | {"method": LENGTH["method"] | {"settings": {"max": 100}}}
    assert describe_difference(rubric(), rubric(TONE, stricter)) == ["criteria[length].method.settings.max: 200 -> 100"]


def test_a_long_text_is_shown_around_its_first_difference():
    # 100 characters are the same, the excerpt begins 20 before the first difference
    old, new = (changed(description="x" * 100 + end) for end in ("old", "new"))
    assert describe_difference(old, new) == [f"criteria[tone].description: ...{'x' * 20}old -> ...{'x' * 20}new"]


@given(rubrics, rubrics)
def test_a_difference_is_empty_only_where_the_digests_agree(old: Rubric, new: Rubric):
    assert (describe_difference(old, new) == []) == (rubric_digest(old) == rubric_digest(new))


def whole(**changes: Any) -> Rubric:
    """A rubric of the newer parts: groups, a scale, an overall row, notes."""
    scored = {"id": "tone", "description": "Kind?", "method": {"type": "judge"}, "category": "voice"}
    parts: dict[str, Any] = {
        "categories": [{"id": "voice", "weight": 2}],
        "criteria": [scored | {"scale": {"min": 1, "max": 5, "points": {"1": "Cold."}}}],
        "overall": {"label": "All in all", "scale": {"min": 1, "max": 5}},
        "notes": {"label": "Notes"},
    }
    return rubric(**(parts | changes))


def scaled(**scale: Any) -> Rubric:
    return whole(criteria=[TONE | {"category": "voice", "levels": (), "scale": {"min": 1, "max": 5} | scale}])


@law_over(
    ("old", "new", "lines"),
    [
        (whole(), whole(categories=[{"id": "voice", "weight": 3}]), ["categories[voice].weight: 2 -> 3"]),
        (whole(), whole(notes=None), ['notes: {"label":"Notes"} -> none']),
        (
            whole(),
            whole(overall=None),
            ['overall: {"label":"All in all","required":true,"scale":{"max":5,"min"... -> none'],
        ),
        (whole(), whole(notes={"label": "Why"}), ["notes.label: Notes -> Why"]),
        (scaled(), scaled(points={"1": "Cold."}), ["criteria[tone].scale.points.1: absent -> Cold."]),
        (scaled(max=7), scaled(), ["criteria[tone].scale.max: 7 -> 5"]),
    ],
)
def test_a_difference_of_the_newer_parts_is_a_plain_line(old: Rubric, new: Rubric, lines: list[str]):
    assert describe_difference(old, new) == lines


def test_a_scale_for_levels_is_told_without_the_keys_that_nobody_filled():
    lines = describe_difference(changed(), changed(levels=(), scale={"min": 0, "max": 1}))
    assert lines[-1] == 'criteria[tone].scale: none -> {"max":1,"min":0}'


def test_a_difference_names_its_path():
    [difference] = find_differences(rubric(), changed(weight=0.5))
    assert difference.path == ("criteria", "tone", "weight")
    assert (difference.old, difference.new) == (0.4, 0.5)


def test_a_rubric_of_before_the_newer_parts_keeps_its_digest():
    # taken when categories, scales and the overall row came: they must not show in a rubric without them
    safe = {
        "id": "safe",
        "description": "Safe?",
        "gate": True,
        "method": {"type": "schema", "schema": {"type": "object"}},
    }
    old = rubric(TONE | {"category": "voice", "threshold": 0.5}, LENGTH, safe, missing="skip", metadata={"team": "a"})
    assert rubric_digest(old) == "a5f64361f903247983043a2adab766c5"


@law_over(
    ("body", "words"),
    [
        ("", "found no JSON"),
        ("[]", "expected a mapping"),
        ("[" * 100_000, "found endless nesting"),
        ('{"id":"a","version":"1.0.0","criteria":[],"metadata":{"a":NaN}}', "found NaN"),
        (
            '{"id":"a","version":"1.0.0","criteria":[{"id":"b","later":1}]}',
            r"criteria\[0\]: found the unknown key 'later'",
        ),
        ('{"id":"a","version":"1.0.0"}', "found no 'criteria', expected one"),
    ],
)
def test_a_body_that_is_no_rubric_is_refused_in_words(body: str, words: str):
    with pytest.raises(RubricError, match=words):
        rubric_from_body(body)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("value", "words"),
    [(float("nan"), "JSON can't hold"), ("\ud800", "JSON can't hold"), (nested(600), "too deep a nesting")],
)
def test_a_rubric_that_json_can_not_hold_has_no_body(value: Any, words: str):
    with pytest.raises(RubricError, match=words):
        canonical_body(rubric(metadata={"a": value}))

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.json_text import MOST_LEVELS, find_json
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over

TOO_DEEP = f"nested too deeply, at most {MOST_LEVELS} levels are read"


def judge(name: str, output: str, reference: str | None = None, **settings: object) -> tuple[bool | None, str | None]:
    """The verdict, with its evidence or its reason."""
    check = find_check(name)
    shard = pa.table({"output": [output], "reference": pa.array([reference], pa.string())})
    found = check.function(shard, read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py() or (found.reasons and found.reasons[0].as_py())


@law_over(
    "output",
    [
        '{"a": 1}',
        "{}",
        "So: {\n} (see [1], [2])",
        '```json\r\n{"a": "}{"}\r\n```',
        '中文{"a": "文"}。',
        "ไทย{}ไทย",
        'שלום {"א": "😀e\u0301"}',
        '[see {"a": 1}]',
        '{{"a": 1}}',
        "\x00{}\x00",
        '{"a": None, "b": {"c": 1}} or rather {"a": null}',
        '```\n{"a": None, "b": {"c": 1}, ...\n```\n```\n{"a": null}\n```',
        'say "{" and\n{"a": 1}',
        '{"a": ...} as in {"a": 1}',
    ],
)
def test_a_text_with_one_object_passes(output):
    assert judge("has_json_object", output) == (True, None)


@law_over(
    ("output", "settings", "evidence"),
    [
        ("", {}, "found no JSON object"),
        (" \n ", {}, "found no JSON object"),
        ("set {x} in {y}", {}, "found no JSON object"),
        ("{'a': 1}", {}, "found no JSON object"),
        ('{"a": 1,}', {}, "found no JSON object: line 1 column 9: Expecting property name enclosed in double quotes"),
        ('{"a": {"b": 1}, oops}', {}, "found no JSON object: line 1 column 17: Expecting property name"),
        ('{"a": {"b": 1}', {}, "found no JSON object: line 1 column 15: Expecting ',' delimiter"),
        ('{"a": None, "b": {"c": 1}}', {}, "found no JSON object: line 1 column 7: Expecting value"),
        ('{"a": None, "b": {"c": 1}, "d": {"e": 1', {}, "found no JSON object: line 1 column 7: Expecting value"),
        ('[{"a": None}, {"b": 1}]', {}, "found no JSON object: line 1 column 8: Expecting value"),
        ('{"a": "5" tall", "b":\n{"c": 1}}', {}, "found no JSON object: line 1 column 11: Expecting ',' delimiter"),
        ('{"a": NaN}', {}, "found no JSON object: NaN is not JSON"),
        ("{} {}", {}, "found 2 JSON objects, expected one"),
        ("[{}]", {}, "found no JSON object"),
        ('"{" {"a": 1}', {}, "found no JSON object: line 1 column 7: Expecting ':' delimiter"),  # a known limit
        ("{} [1]", {"kind": "any"}, "found 2 JSON objects and arrays, expected one"),
        ("{}", {"kind": "array"}, "found no JSON array"),
        ('{"a":' * 250 + "1" + "}" * 250, {}, TOO_DEEP),
    ],
)
def test_a_text_without_exactly_one_fails_and_says_why(output, settings, evidence):
    is_passed, found = judge("has_json_object", output, **settings)
    assert (is_passed, (found or "")[: len(evidence)]) == (False, evidence)


def test_more_than_one_will_do_where_that_is_allowed():
    assert judge("has_json_object", "{} {} []", is_only_one=False) == (True, None)


@law_over(
    ("output", "is_passed"),
    [
        ("[" * 1_000_000, False),
        ("{" * 1_000_000, False),
        ('{"' * 500_000, None),
        ("{}" * 500_000, None),
        ('{"a":1,}' * 125_000, None),
        ('{"a":' + '"\\' * 499_000, False),
        ('{"a":1,' * 140_000, False),
        ('{"a":-' + "[" * 1_000_000, False),
        ("[" * 500_000 + '{"' * 250_000, False),
        ("[" + "1," * 499_000 + "NaN]", False),
        ("[" * 900 + "1," * 499_000 + "NaN", False),
        ('["' + '\\"[' * 333_000, False),
        ("[" + " " * 1_000_000, False),
        ('"' * 1_000_000, False),
        ("9" * 1_000_000, False),
        ("{}" + " " * 1_000_000, True),
    ],
)
def test_a_megabyte_made_to_stall_has_its_verdict(output, is_passed):
    assert judge("has_json_object", output)[0] is is_passed


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1e300, "", "a", '"{[', "\\", "é😀"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "{"]), inner, max_size=3),
    max_leaves=8,
)
CONTAINERS = st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), VALUES, max_size=3)


@given(st.lists(CONTAINERS, max_size=4), st.sampled_from(["", " and ", "\n```\n", "中"]))
def test_what_was_written_among_prose_is_found_again(values, between):
    found = find_json(between.join(json.dumps(value) for value in values))
    assert found.objects == [value for value in values if isinstance(value, dict)]
    assert found.arrays == [value for value in values if isinstance(value, list)]


@law_over(
    ("output", "extract", "expected"),
    [
        ('{"id": 1}', "whole", (True, None)),
        ('Done: {"id": 1}', "whole", (False, "not JSON: line 1 column 1: Expecting value")),
        ('Done [1]: {"id": 1}', "found", (True, None)),
        ("Done: [1]", "found", (False, "$: [1] is not of type 'object'")),
        ("Done: {} {}", "found", (False, "found 2 JSON objects, expected one")),
        ("Done.", "found", (False, "found no JSON object or array")),
        ("{}" * 60_000, "found", (None, "too many brackets: more than 50,000 starts of JSON")),
    ],
)
def test_the_json_of_an_output_is_held_to_the_schema(output, extract, expected):
    schema = {"type": "object", "required": ["id"]}
    assert judge("json_schema", output, schema=schema, extract=extract) == expected


@law_over(
    ("output", "reference", "settings", "expected"),
    [
        ('{"a": [1, {"b": "x"}]}', '{"a": [1.0, {"b": "x"}]}', {}, (True, None)),
        ('{"a": [1, {"b": "x"}]}', '{"a": [1, {"b": "y"}]}', {}, (False, '$.a[1].b: found "x", expected "y"')),
        ("[1, 2]", "[1, 2, 3]", {}, (False, "$: found 2 entries, expected 3")),
        ("{}", '{"a b": 1}', {}, (False, '$["a b"]: missing, expected 1')),
        ('{"a": 1}', "{}", {}, (False, "$.a: found 1, expected no such key")),
        ("true", "1", {}, (False, "$: found true, expected 1")),
        ("1", "1.05", {"tolerance": 0.1}, (True, None)),
        ("1", "1.05", {}, (False, "$: found 1, expected 1.05")),
        ("[2, [4, 3], 1]", "[1, 2, [3, 4]]", {"ignore_order": True}, (True, None)),
        ("[1, 1, 2]", "[1, 2, 2]", {"ignore_order": True}, (False, "$[1]: found 1, expected 2")),
        ('[null, true, "a", 1, {}, []]', '[[], {}, "a", 1, true, null]', {"ignore_order": True}, (True, None)),
        ('{"id": 7, "a": {"id": 8}}', '{"id": 1, "a": {}}', {"ignore_keys": ["id"]}, (True, None)),
        ("So: {} [1]", "{}", {"extract": "found"}, (True, None)),
        ("So: {}", "{}", {}, (False, "not JSON: line 1 column 1: Expecting value")),
        ("", "{}", {}, (False, "not JSON: line 1 column 1: Expecting value")),
        ("null", "1", {"value": None}, (True, None)),
        ("{}", None, {"value": {}}, (True, None)),
        ("{}", None, {}, (None, "no reference")),
        ("{}", "Paris", {}, (None, "the reference is not JSON: line 1 column 1: Expecting value")),
    ],
)
def test_json_is_compared_with_what_was_expected(output, reference, settings, expected):
    assert judge("json_equals", output, reference, **settings) == expected


@given(VALUES, VALUES)
def test_equality_is_that_of_json_in_order(one, other):
    is_same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert judge("json_equals", json.dumps(one), json.dumps(other))[0] is is_same


@given(st.lists(VALUES, max_size=5).flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
def test_the_order_of_lists_can_be_left_out(pair):
    one, other = (json.dumps({"a": values}) for values in pair)
    assert judge("json_equals", one, other, ignore_order=True) == (True, None)


@law_over(
    ("output", "reference", "tolerance", "expected"),
    [
        ("1.1", "1", 0.1, (True, None)),  # as floats 0.10000000000000009 apart
        ("1.1000001", "1", 0.1, (False, "$: found 1.1000001, expected 1")),
        ("9007199254740993", "9007199254740992.0", 0, (False, "$: found 9007199254740993, expected 90071992547409")),
        ("1e999", "1", 1e300, (False, "$: found Infinity, expected 1")),
        ("1e999", "1e998", 0, (None, "too large to compare: found two numbers beyond 1e308")),
        ("1" * 400, "2" * 400, 0, (None, "too large to compare: found two numbers beyond 1e308")),
        ("1" * 300, "1.5", 1, (False, "$: found 11111111111111111111111111111111111111111111111111111111111…")),
    ],
)
def test_numbers_are_as_near_as_they_are_written(output, reference, tolerance, expected):
    is_passed, told = judge("json_equals", output, reference, tolerance=tolerance)
    assert (is_passed, told and told[: len(expected[1] or "")]) == expected


def test_nesting_to_the_limit_is_compared():
    deep = "[" * MOST_LEVELS + "1" + "]" * MOST_LEVELS
    is_passed, evidence = judge("json_equals", deep, deep.replace("1", "2"), ignore_order=True, ignore_keys=["a"])
    assert (is_passed, evidence) == (False, "$[0][0][0][0]…[0][0][0][0]: found 1, expected 2")


def test_a_long_difference_is_cut():
    evidence = judge("json_equals", json.dumps({"k" * 500: "x" * 1_000_000}), "{}")[1] or ""
    assert len(evidence) <= 200 and "expected no such key" in evidence


@law_over(
    ("name", "settings", "told"),
    [
        ("has_json_object", {"kind": "number"}, "kind"),
        ("json_schema", {}, "schema"),
        ("json_schema", {"schema": {"$ref": "other.json"}}, "expected a place inside the schema"),
        ("json_schema", {"schema": {"pattern": "(?=a)"}}, "RE2"),
        ("json_schema", {"schema": {}, "extract": "any"}, "extract"),
        ("json_equals", {"tolerance": -1}, "tolerance"),
        ("json_equals", {"tolerance": float("nan")}, "tolerance"),
        ("json_equals", {"ignore_keys": "id"}, "ignore_keys"),
        ("json_equals", {"value": float("nan")}, "a value that JSON can't hold"),
        ("json_equals", {"value": [10**400]}, "a value that JSON can't hold"),
        ("json_equals", {"value": {"a": {1, 2}}}, "a value that JSON can't hold"),
    ],
)
def test_settings_that_mean_nothing_are_refused(name, settings, told):
    with pytest.raises(ValidationError, match=told):
        read_settings(find_check(name), settings)


def test_a_list_of_values_of_every_kind_has_one_order():
    entries = [
        "null",
        "true",
        "1",
        "1.5",
        '"a"',
        "[]",
        "[null]",
        "[1, 2]",
        '[1, "a"]',
        "{}",
        '{"a": null}',
        '{"a": [2, 1]}',
    ]
    output, reference = (f"[{', '.join(order)}]" for order in (entries, entries[::-1]))
    assert judge("json_equals", output, reference, ignore_order=True) == (True, None)
    assert judge("json_equals", output, reference.replace("1.5", "2.5"), ignore_order=True)[0] is False

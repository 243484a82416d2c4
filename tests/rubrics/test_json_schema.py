import json
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rubrics.json_schema import check_schema, validate_outputs

TICKET = {
    "type": "object",
    "required": ["ticket"],
    "properties": {"ticket": {"type": "string", "pattern": r"^T-\d+$"}, "tags": {"type": "array", "uniqueItems": True}},
    "additionalProperties": False,
}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def judge(output: str, schema: dict[str, object]) -> tuple[bool, str | None]:
    found = validate_outputs(pa.array([output]), schema)
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (' {"ticket": "T-1"}\n', (True, None)),
        ("{}", (False, "$: 'ticket' is a required property")),
        ("[]", (False, "$: [] is not of type 'object'")),
        ('{"ticket": "1"}', (False, r"$.ticket: '1' does not match '^T-\\d+$'")),
        ('{"ticket": "T-1", "x": 1}', (False, "$: additional properties are not allowed: 'x'")),
        ("Sure!", (False, "not JSON: line 1 column 1: Expecting value")),
        ("", (False, "not JSON: line 1 column 1: Expecting value")),
        ('{"ticket": NaN}', (False, "not JSON: line 1 column 12: NaN is not JSON")),
        ("[" * 100_000, (False, "not JSON: nested too deeply, at most 200 levels are read")),
        ('{"\\ud800": 1, "ticket": "T-1"}', (False, r"$: additional properties are not allowed: '\ud800'")),
    ],
)
def test_an_output_satisfies_the_schema_or_says_where_not(output, expected):
    assert judge(output, TICKET) == expected


def test_no_outputs_have_no_verdicts():
    assert len(validate_outputs(pa.array([], pa.string()), TICKET).is_passed) == 0


def test_the_first_three_errors_are_shown():
    evidence = judge("[1, 2, 3, 4]", {"items": {"type": "string"}})[1]
    assert evidence == "; ".join(f"$[{place}]: {place + 1} is not of type 'string'" for place in range(3))


def test_an_error_about_a_long_value_keeps_its_reason():
    # 60 characters of the value: the quote, 58 letters and the mark of the cut
    expected = "$: '" + "a" * 58 + "… is not of type 'object'"
    assert judge(json.dumps("a" * 1_000_000), TICKET) == (False, expected)


def test_an_error_is_cut_to_two_hundred_characters():
    evidence = judge(json.dumps({"k" * 500: 1, "ticket": "T-1"}), TICKET)[1]
    assert evidence is not None
    assert (len(evidence), evidence[-1]) == (200, "…")


@pytest.mark.parametrize("dialect", [{}, {"$schema": NEWEST_DRAFT}, {"$schema": DRAFT_7}], ids=str)
def test_a_pattern_made_to_backtrack_takes_linear_time(dialect):
    # through a $ref to the top too: there jsonschema looks at $schema again
    schema = {**dialect, "type": ["object", "string"], "pattern": "^(a+)+$", "properties": {"x": {"$ref": "#"}}}
    started = time.perf_counter()
    assert not judge(json.dumps({"x": "a" * 100_000 + "!"}), schema)[0]
    assert time.perf_counter() - started < 3


@pytest.mark.parametrize("keyword", [{"patternProperties": {"^(a+)+$": {}}}, {"patternProperties": {"^(a+)+$": False}}])
def test_a_key_made_to_backtrack_takes_linear_time(keyword):
    started = time.perf_counter()
    assert not judge(json.dumps({"a" * 100_000 + "!": 1}), {**keyword, "additionalProperties": False})[0]
    assert time.perf_counter() - started < 3


@pytest.mark.parametrize(
    ("output", "is_passed"),
    [
        ('{"ab": 1}', True),
        ('{"ab": "x"}', False),
        ('{"c": true}', True),
        ('{"c": 1}', False),
        ('{"d": null}', True),
        ('{"d": 1}', False),
    ],
)
def test_each_key_is_held_to_the_keyword_that_speaks_of_it(output, is_passed):
    schema = {
        "patternProperties": {"^a": {"type": "integer"}},
        "properties": {"c": {"type": "boolean"}},
        "additionalProperties": {"type": "null"},
    }
    assert judge(output, schema)[0] is is_passed


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, 1.5, "", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=5))
@hypothesis_settings(deadline=None)
def test_unique_items_agree_with_jsonschema(values):
    schema = {"uniqueItems": True}
    assert judge(json.dumps(values), schema)[0] is Draft202012Validator(schema).is_valid(values)


def test_unique_items_take_linear_time():
    started = time.perf_counter()
    assert judge(json.dumps([{"n": number} for number in range(50_000)]), {"uniqueItems": True})[0]
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("output", ["1e999", "9" * 5000])
def test_a_number_too_large_to_validate_fails_and_does_not_crash(output):
    assert judge(output, {"multipleOf": 0.01}) == (False, "holds a number too large to validate")


def test_a_schema_of_itself_follows_the_output_down():
    schema = {"type": "array", "items": {"$ref": "#"}}
    assert judge("[[[]]]", schema)[0]
    assert judge("[[[1]]]", schema) == (False, "$[0][0][0]: 1 is not of type 'array'")


def test_nesting_beyond_the_stack_fails_and_does_not_crash():
    hops = {f"h{number}": {"allOf": [{"$ref": f"#/$defs/h{number + 1}"}]} for number in range(20)}
    schema = {"$defs": {**hops, "h20": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/h0"}
    assert judge("[" * 150 + "]" * 150, schema) == (False, "nested too deeply to validate")


@pytest.mark.parametrize(
    "schema",
    [
        {},
        TICKET,
        {"$schema": DRAFT_7, "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$schema": DRAFT_7.removesuffix("#")},
        {"$defs": {"a": {"$id": "urn:a:b"}}, "$ref": "urn:a:b"},
        {"pattern": r"^\p{L}+$"},
        {"enum": [{"$ref": "https://example.com/not-a-reference", "pattern": "("}]},
        {"properties": {"pattern": {"const": "("}, "$ref": {"type": "string"}}},
        {"unevaluatedProperties": False},
    ],
    ids=str,
)
def test_a_good_schema_has_no_fault(schema):
    assert check_schema(schema) is None


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "nonsense"}, "$.type"),
        ({"properties": {"a": {"minLength": -1}}}, "$.properties.a.minLength"),
        ({"$schema": "https://example.com/mine"}, "https://example.com/mine"),
        ({"$schema": 7}, "$schema: found 7"),
        ({"properties": {"a": {"$schema": DRAFT_7}}}, "inside the schema"),
        ({"items": {"pattern": "(?=a)"}}, "(?=a)"),
        ({"patternProperties": {r"(a)\1": {}}}, "RE2"),
        ({"$ref": "#/x", "x": {"pattern": "("}}, "found '('"),
        ({"$ref": "#/x", "x": {"type": 1}}, "#/x"),
        ({"$ref": "#/enum", "enum": [1]}, "#/enum"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5}, "'5'"),
        ({"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]}, "unevaluatedProperties"),
        ({"$ref": "#"}, "leads to itself"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_schema_is_named(schema, named):
    assert named in (check_schema(schema) or "")


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/s.json", "file:///etc/hostname", "other.json", "#/$defs/none", "#anchor", NEWEST_DRAFT],
)
def test_a_reference_that_leaves_the_schema_is_refused_by_name(reference):
    schema = {"properties": {"a": {"anyOf": [{"$ref": reference}]}}}
    assert check_schema(schema) == f"$ref: found {reference!r}, expected a place inside the schema"


def test_a_schema_without_end_is_refused():
    schema: dict[str, object] = {}
    for _ in range(5000):
        schema = {"not": schema}
    assert "without end" in (check_schema(schema) or "")


def test_outputs_are_not_validated_with_a_faulty_schema():
    with pytest.raises(ValueError, match=r"example\.com"):
        validate_outputs(pa.array(["{}"]), {"$ref": "https://example.com/s.json"})

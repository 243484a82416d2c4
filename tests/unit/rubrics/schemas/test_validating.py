import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gradebook.rubrics.schemas.validating import check_schema, validate_outputs
from tests.support.bounded import bounded_work
from tests.support.law_over import law_over

TICKET = {
    "type": "object",
    "required": ["ticket"],
    "properties": {"ticket": {"type": "string", "pattern": r"^T-\d+$"}, "tags": {"type": "array", "uniqueItems": True}},
    "additionalProperties": False,
}
DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def judge(output: str, schema: dict[str, object]) -> tuple[bool, str | None]:
    found = validate_outputs(pa.array([output]), schema)
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


def unscored(output: str, schema: dict[str, object]) -> str | None:
    """Why the output can't be told."""
    found = validate_outputs(pa.array([output]), schema)
    assert found.is_passed[0].as_py() is None and found.reasons is not None
    return found.reasons[0].as_py()


@law_over(
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
    with bounded_work():
        assert not judge(json.dumps({"x": "a" * 100_000 + "!"}), schema)[0]


@pytest.mark.parametrize("keyword", [{"patternProperties": {"^(a+)+$": {}}}, {"patternProperties": {"^(a+)+$": False}}])
def test_a_key_made_to_backtrack_takes_linear_time(keyword):
    with bounded_work():
        assert not judge(json.dumps({"a" * 100_000 + "!": 1}), {**keyword, "additionalProperties": False})[0]


@law_over(
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
def test_unique_items_agree_with_jsonschema(values):
    schema = {"uniqueItems": True}
    assert judge(json.dumps(values), schema)[0] is Draft202012Validator(schema).is_valid(values)


def test_unique_items_take_linear_time():
    with bounded_work():
        assert judge(json.dumps([{"n": number} for number in range(50_000)]), {"uniqueItems": True})[0]


@pytest.mark.parametrize("output", ["1e999", "9" * 5000])
def test_a_number_too_large_to_validate_stays_unscored(output):
    assert unscored(output, {"multipleOf": 0.01}) == "holds a number too large to validate"


@pytest.mark.parametrize(
    ("output", "divisor", "is_passed"),
    [("0.07", 0.01, True), ("19.99", 0.01, True), ("0.075", 0.01, False), ("4.0", 2, True), ("true", 2, True)],
)
def test_a_multiple_is_one_as_it_is_written(output, divisor, is_passed):
    assert judge(output, {"multipleOf": divisor})[0] is is_passed
    assert judge(output, {"$schema": DRAFT_3, "divisibleBy": divisor})[0] is is_passed


def test_a_schema_of_itself_follows_the_output_down():
    schema = {"type": "array", "items": {"$ref": "#"}}
    assert judge("[[[]]]", schema)[0]
    assert judge("[[[1]]]", schema) == (False, "$[0][0][0]: 1 is not of type 'array'")


def test_nesting_beyond_the_stack_stays_unscored():
    hops = {f"h{number}": {"allOf": [{"$ref": f"#/$defs/h{number + 1}"}]} for number in range(20)}
    schema = {"$defs": {**hops, "h20": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/h0"}
    assert unscored("[" * 150 + "]" * 150, schema) == "nested too deeply to validate"


@law_over(
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
        {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]},
    ],
)
def test_a_good_schema_has_no_fault(schema):
    assert check_schema(schema) is None


@law_over(
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
        ({"$ref": "#"}, "leads to itself"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "leads to itself"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "itself"),
        ({"maximum": float("inf")}, "a value that JSON can't hold"),
        ({"const": {1, 2}}, "a value that JSON can't hold"),
    ],
)
def test_what_is_wrong_with_a_schema_is_named(schema, named):
    assert named in (check_schema(schema) or "")


@law_over(
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
    assert "endless nesting" in (check_schema(schema) or "")


def test_outputs_are_not_validated_with_a_faulty_schema():
    with pytest.raises(ValueError, match=r"example\.com"):
        validate_outputs(pa.array(["{}"]), {"$ref": "https://example.com/s.json"})


STEPS = "validation took more than 200,000 steps"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
TOWN = {"type": "object", "required": ["town"], "$defs": {"name": {"type": "string"}}}


def doubling(keyword: str, depth: int) -> dict[str, object]:
    """Each definition asks for the next one twice: 2^depth validations, of a value under x."""
    links = {f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(depth)}
    return {"$defs": {**links, f"a{depth}": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a0"}}}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_a_schema_that_doubles_leaves_the_output_unscored(keyword):
    found = validate_outputs(pa.array(['{"x": "a"}' if keyword == "allOf" else '{"x": 1}']), doubling(keyword, 40))
    assert (found.is_passed[0].as_py(), found.reasons[0].as_py()) == (None, STEPS)


def test_a_schema_that_doubles_over_any_value_is_refused():
    schema = {**doubling("allOf", 40), "$ref": "#/$defs/a0"}
    assert "took more than 20,000 steps" in (check_schema({**schema, "$defs": {**schema["$defs"], "a40": {}}}) or "")


@law_over(
    ("schema", "output", "is_passed"),
    [
        ({"items": {"type": "integer"}}, json.dumps([1] * 333_000), None),
        ({"items": {}}, json.dumps([1] * 333_000), None),
        ({"uniqueItems": True}, json.dumps([number * (2**61 - 1) for number in range(45_000)]), True),  # one hash
        ({"anyOf": [{"const": number} for number in range(500)]}, json.dumps([1] * 333_000), False),
        ({"items": {"multipleOf": 0.001}}, json.dumps([10**299] * 3_000), True),
        ({"propertyNames": {"pattern": "^k"}}, json.dumps({f"k{number}": 1 for number in range(80_000)}), None),
        ({"unevaluatedProperties": False}, json.dumps({f"k{number}": 1 for number in range(40_000)}), False),
        ({"allOf": [{"pattern": f"^(a|b|{number})*$"} for number in range(300)]}, json.dumps("a" * 1_000_000), None),
        ({"items": {"not": {"enum": [[1] * 5_000 + [2]]}}}, json.dumps([[1] * 5_001] * 60), True),
    ],
)
def test_a_megabyte_made_to_stall_comes_to_an_end(schema, output, is_passed):
    assert validate_outputs(pa.array([output]), schema).is_passed[0].as_py() is is_passed


def test_two_thousand_records_are_validated_to_the_end():
    # some 35 steps each: of ten keys, each looked at by two keywords and held to a type; and the record's own four
    record = {"type": "object", "required": ["a"], "properties": {key: {"type": "string"} for key in "abcdefghij"}}
    schema = {"items": {**record, "additionalProperties": False}}
    assert judge(json.dumps([dict.fromkeys("abcdefghij", "x")] * 2_000), schema) == (True, None)


SUBSCHEMAS = st.sampled_from(
    [
        {},
        {"properties": {"a": True}},
        {"patternProperties": {"^b": {"type": "integer"}}},
        {"properties": {"a": {"type": "integer"}}},
        {"required": ["a"], "properties": {"b": {}}},
        {"additionalProperties": {"type": "string"}},
        {"prefixItems": [{}]},
        {"contains": {"type": "integer"}},
        {"items": {"type": "string"}},
        {"dependentSchemas": {"a": {"properties": {"c": {}}}}},
        {"$ref": "#/$defs/b"},
    ]
)


@given(st.lists(SUBSCHEMAS, max_size=3), st.sampled_from(["allOf", "anyOf", "oneOf"]), SUBSCHEMAS, st.data())
def test_unevaluated_keywords_agree_with_jsonschema(branches, keyword, condition, data):
    # jsonschema counts a key of `additionalProperties` only where it is valid; the whole then fails there too
    schema = {
        "$defs": {"b": {"properties": {"b": {}}}},
        keyword: branches or [{}],
        "if": condition,
        "then": {"properties": {"c": {}}},
        "unevaluatedProperties": {"type": "null"},
        "unevaluatedItems": False,
    }
    keys = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, "x", None]), max_size=3)
    instance = data.draw(keys | st.lists(st.sampled_from([1, "x"]), max_size=3))
    assert judge(json.dumps(instance), schema)[0] is Draft202012Validator(schema).is_valid(instance)


def test_unevaluated_items_of_2019_follow_a_list_of_items():
    schema = {"$schema": DRAFT_2019, "items": [{"type": "integer"}], "unevaluatedItems": False}
    assert (judge("[1]", schema)[0], judge("[1, 2]", schema)[0]) == (True, False)


@given(VALUES, VALUES)
def test_equality_agrees_with_jsonschema(one, other):
    schema = {"anyOf": [{"const": one}, {"enum": [[one], other]}]}
    assert judge(json.dumps(other), {"const": one})[0] is Draft202012Validator({"const": one}).is_valid(other)
    assert judge(json.dumps([one]), schema)[0] is Draft202012Validator(schema).is_valid([one])


@pytest.mark.parametrize(
    ("schema", "output", "is_passed"),
    [
        ({"$ref": "town.json"}, '{"town": 1}', True),
        ({"$ref": "town.json"}, "{}", False),
        ({"items": {"$ref": "town.json#/$defs/name"}}, '["a", 1]', False),
        ({"$id": "https://example.com/a.json", "$ref": "town.json"}, "{}", False),
        ({"$ref": "https://example.com/place.json"}, "[]", False),
    ],
)
def test_a_reference_leads_to_a_schema_beside_it(schema, output, is_passed):
    others = {"town.json": TOWN, "place.json": {"$id": "https://example.com/place.json", "$ref": "town.json"}}
    assert validate_outputs(pa.array([output]), schema, others).is_passed[0].as_py() is is_passed


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (
            {"$ref": "twon.json"},
            "found 'twon.json', expected a place inside the schema, or one of the rubric's schemas",
        ),
        ({"$ref": "twon.json"}, "old.json, town.json (the nearest is town.json)"),
        ({"$ref": "town.json#/$defs/nme"}, "expected a place inside the schema 'town.json'"),
        ({"$schema": NEWEST_DRAFT, "$ref": "old.json"}, "of the draft 'http://json-schema.org/draft-07/schema#'"),
        ({"$ref": "http://["}, "found 'http://['"),
    ],
)
def test_a_reference_to_nothing_beside_the_schema_names_the_nearest(schema, named):
    others = {"town.json": TOWN, "old.json": {"$schema": DRAFT_7}}
    assert named in (check_schema(schema, others) or "")


def test_a_schema_without_a_draft_takes_that_of_the_schemas_beside_it():
    # in draft 7 a list of items goes by place; in 2020-12 the draft's own schema refuses it
    others = {"pair.json": {"$schema": DRAFT_7, "items": [{"type": "integer"}]}}
    assert check_schema({"items": [{}]}, {}) is not None
    assert not validate_outputs(pa.array(['["a"]']), {"$ref": "pair.json"}, others).is_passed[0].as_py()


def test_a_verdict_does_not_depend_on_how_deep_the_caller_stands():
    schema = {"type": "array", "items": {"$ref": "#"}}

    def called_from(depth: int) -> tuple[bool, str | None]:
        return judge("[" * 100 + "]" * 100, schema) if depth == 0 else called_from(depth - 1)

    assert called_from(500) == called_from(0) == (True, None)

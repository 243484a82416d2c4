import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.json_text import MOST_LEVELS, NotJson, parse_json
from gradebook.rubrics.checks.registry import find_check
from tests.support import checked
from tests.support.law_over import law_over

TOO_DEEP = f"nested too deeply, at most {MOST_LEVELS} levels are read"


judge = partial(checked.judge, "json_valid")


@law_over(
    "output",
    [
        '{"a": 1}',
        " [1]\r\n\t",
        '"text"',
        "-1.5e3",
        "true",
        "false",
        "null",
        '{"a": "NaN"}',
        '"\\ud800"',
        "9" * 5000,
        '{"a":1,"a":2}',
    ],
)
def test_json_passes(output):
    assert judge(output) == (True, None)


@law_over(
    ("output", "evidence"),
    [
        ("", "empty, expected JSON"),
        (" \n", "empty, expected JSON"),
        ("Sure: {}", "starts with 'Sure: {}', expected JSON"),
        ("```json\n{}\n```", "starts with '```json\n{}\n```', expected JSON"),
        ("\ufeff{}", "starts with '\ufeff{}', expected JSON"),
        ("\u00a0{}", "starts with '\u00a0{}', expected JSON"),
        ("[1] x", "line 1 column 5: Extra data"),
        ("nope", "line 1 column 1: Expecting value"),
        ('{"a": 1,\n}', "line 2 column 1: Expecting property name enclosed in double quotes"),
        ('"a\x00"', "line 1 column 3: Invalid control character at"),
        ("NaN", "starts with 'NaN', expected JSON"),
        ("[NaN]", "line 1 column 2: NaN is not JSON"),
        ('{"NaN": "Infinity",\n "b": -Infinity}', "line 2 column 7: -Infinity is not JSON"),
        ("-Infinity", "line 1 column 1: -Infinity is not JSON"),
    ],
)
def test_what_is_not_json_fails_with_place_and_reason(output, evidence):
    assert judge(output) == (False, evidence)


@pytest.mark.parametrize("output", ["[" * 100_000, '{"a":' * 100_000, "[" * 201 + "]" * 201, "[" * 600 + "]" * 600])
def test_deep_nesting_is_not_valid_and_no_crash(output):
    assert judge(output) == (False, TOO_DEEP)


def test_the_limit_of_nesting_itself_passes():
    assert judge("[" * MOST_LEVELS + "]" * MOST_LEVELS) == (True, None)


def test_many_shallow_lists_are_not_deep():
    assert judge(json.dumps([[]] * 1000)) == (True, None)


@law_over(
    ("kind", "output", "is_passed"),
    [
        ("object", "{}", True),
        ("object", "[]", False),
        ("object", "1", False),
        ("array", " []", True),
        ("array", "{}", False),
        ("any", "1", True),
    ],
)
def test_the_kind_is_held_to(kind, output, is_passed):
    assert judge(output, kind=kind)[0] is is_passed


def test_the_wrong_kind_is_named():
    assert judge("[1]", kind="object")[1] == "starts with '[1]', expected a JSON object"


@pytest.mark.parametrize("settings", [{"kind": "string"}, {"schema": {}}], ids=str)
def test_other_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("json_valid"), settings)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_python_writes_reads_back(value):
    assert parse_json(json.dumps(value)) == value


@given(st.text(alphabet='{}[]",:\\1-eNaIinfty tru\n', max_size=30))
def test_any_text_is_json_or_not_and_never_a_crash(text):
    try:
        parse_json(text)
    except NotJson:
        assert judge(text)[0] is False
    else:
        assert judge(text)[0] is True


def test_a_million_characters_of_json_pass():
    assert judge('{"a": "' + "é" * 1_000_000 + '"}') == (True, None)

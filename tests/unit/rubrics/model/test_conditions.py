"""Conditions on a row: their grammar, their meaning and what they refuse."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gradebook.rubrics.model.conditions import MOST_CHARACTERS, Applies, Misfit, describe_values, parse_condition
from gradebook.rubrics.model.errors import ModelFault
from tests.support.law_over import law_over

ROW: dict[str, Any] = {
    "model": "small",
    "sample_index": 2,
    "reference": None,
    "context": [],
    "metadata": {"kind": "refund", "amount": 120, "vip": True, "a b": {"c": "it's"}, "none": None},
}


@law_over(
    ("condition", "holds"),
    [
        ("metadata.kind = 'refund'", True),
        ('metadata.kind == "refund"', True),
        ("metadata.kind != 'refund'", False),
        ("metadata.kind in ('order', 'refund')", True),
        ("metadata.kind not in ['order', 'refund']", False),
        ("metadata.amount > 100 and metadata.amount <= 1.2e2", True),
        ("metadata.amount < 100 or model = 'small'", True),
        ("not metadata.vip = true", False),
        ("metadata.\"a b\".c = 'it''s'", True),
        ("sample_index >= 3", False),
        ("reference exists or context exists", False),
        ("metadata.none exists", False),
        # A missing field meets no comparison; `not` before it is plain negation.
        ("metadata.no = 'x'", False),
        ("metadata.no != 'x'", False),
        ("metadata.no not in ('x')", False),
        ("not metadata.no = 'x'", True),
        # `and` binds closer than `or`, `not` closer than both.
        ("model = 'small' or model = 'x' and model = 'y'", True),
        ("(model = 'small' or model = 'x') and model = 'y'", False),
        ("not model = 'x' and model = 'small'", True),
        # What follows a settled part is not read, so it may be of any type.
        ("metadata.kind = 'order' and metadata.kind > 3", False),
    ],
)
def test_a_condition_holds_as_it_reads(condition, holds):
    assert parse_condition(condition).holds(ROW) is holds


@law_over(
    ("condition", "fault"),
    [
        ("", "at character 1: found the end, expected a field of the row"),
        ("metadata", "at character 1: found 'metadata', expected metadata.KEY"),
        ("modl = 'x'", "at character 1: found 'modl', expected model"),
        ("target = 'x'", "at character 1: found 'target', expected metadata.KEY or one of model"),
        ("metadata.kind", "at character 14: found the end, expected one of = != < <= > >=, `in`"),
        ("metadata.kind = refund", "at character 17: found 'refund', expected a text in quotes"),
        ("metadata.kind = 'x", 'at character 17: found "\'x", expected a field, a value or a sign'),
        ("model = 3", "at character 9: found '3', expected a text, as model is"),
        ("metadata.a < true", "at character 14: found 'true', expected a number or a text after <"),
        ("metadata.a in ('x', 3)", "at character 21: found '3', expected a text, as the first value"),
        ("metadata.a in ()", "at character 16: found ')', expected a text in quotes"),
        ("context = 'x'", "at character 9: found '=', expected `exists`: context is a list"),
        ("model = 'x' model = 'y'", "at character 13: found 'model', expected `and`, `or` or the end"),
        ("model = 'x'; drop table runs", "at character 12: found ';', expected a field"),
        ("(" * 60 + "model = 'x'" + ")" * 60, "expected at most 50 brackets"),
        ("model = '" + "x" * MOST_CHARACTERS + "'", "expected at most 2,000"),
    ],
)
def test_a_fault_is_named_by_its_character(condition, fault):
    with pytest.raises(ModelFault) as raised:
        parse_condition(condition)
    assert fault in str(raised.value)


def test_a_value_of_another_type_is_refused():
    with pytest.raises(Misfit, match=r"metadata\.amount: found 120, a number, expected a text, as '120'"):
        parse_condition("metadata.amount = '120'").holds(ROW)


def test_the_reason_names_each_field_once():
    condition = parse_condition(
        "metadata.kind = 'order' or metadata.kind = 'x' or metadata.vip = false and model = 'x'"
    )
    assert describe_values(condition, ROW) == "metadata.kind is 'refund', metadata.vip is true, model is 'small'"


NAMES = st.sampled_from(["model", "metadata.kind", 'metadata."a b".c', "checkpoint"])
VALUES = st.one_of(st.text(max_size=5), st.text("'\"()", max_size=4)).map(
    lambda text: "'" + text.replace("'", "''") + "'"
)
LEAVES = st.one_of(
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["=", "!=", "<", ">="]), VALUES),
    st.builds("{} in ({}, {})".format, NAMES, VALUES, VALUES),
    st.builds("{} exists".format, NAMES),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=6,
)


@given(text=CONDITIONS)
def test_a_condition_has_one_text(text):
    condition = parse_condition(text)
    assert parse_condition(str(condition)) == condition


@pytest.mark.parametrize("number", ["1732980123456789", "1234567890123456789", "0.1234567890123456", "1e300", "-7.0"])
def test_a_number_in_a_condition_keeps_its_value(number):
    condition = parse_condition(str(parse_condition(f"metadata.id = {number}")))
    assert condition == parse_condition(f"metadata.id = {number}")
    assert json.loads(str(condition).rpartition(" ")[2]) == json.loads(number)


@pytest.mark.parametrize(
    "text", ["metadata.a = 1e999", 'metadata.a = "' + "'" * 1_500 + '"'], ids=["infinite", "longer in its one text"]
)
def test_a_condition_that_could_not_be_read_back_is_refused(text):
    with pytest.raises((ModelFault, ValidationError)):
        TypeAdapter(Applies).validate_python(text)

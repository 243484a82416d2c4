import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over


def judge(outputs: list[str], references: list[str | None], **settings: object) -> CheckVerdicts:
    check = find_check("matches_reference")
    shard = pa.table({"output": outputs, "reference": pa.array(references, pa.string())})
    return check.function(shard, read_settings(check, settings))


def test_expected_takes_the_place_of_the_reference():
    found = judge(["Nile", "Rhine"], ["Rhine", None], expected="Nile")
    assert found.is_passed.to_pylist() == [True, False]


def test_one_of_several_accepted_answers_is_enough():
    found = judge(["Nile", "the Nile", "Rhine"], [None] * 3, expected=["Nile", "the Nile"])
    assert found.is_passed.to_pylist() == [True, True, False]
    assert found.evidence.to_pylist()[2] == "found 'Rhine', expected 'Nile' or 1 other"


@pytest.mark.parametrize(
    ("output", "reference", "is_passed"),
    [
        ("Hi there", '["Hello","Hi there"]', True),
        ("Hey", '["Hello","Hi there"]', False),
        ('["Hello","Hi there"]', '["Hello","Hi there"]', True),
        ("a", '["a", 1, "b"]', False),
        ("a", '["a"', False),
    ],
)
def test_a_json_list_of_texts_accepts_each_of_them_and_itself(output, reference, is_passed):
    found = judge([output, " x", "", "y"], [reference, " x", "", None], case_sensitive=True)
    assert found.is_passed.to_pylist() == [is_passed, True, True, None]


@law_over(
    ("output", "reference", "is_passed"),
    [
        ("UK", "United Kingdom | UK", True),
        ("|", "United Kingdom | UK", False),
        ("", "UK||", False),
        ("UK", "UK", True),
        ("UK", " | ", None),
        ("UK", "", None),
        ("UK", None, None),
    ],
)
def test_a_separator_sets_accepted_answers_apart_and_blank_ones_do_not_count(output, reference, is_passed):
    found = judge([output], [reference], separator="|")
    assert found.is_passed.to_pylist() == [is_passed]
    assert found.reasons is not None
    assert found.reasons.to_pylist() == [None if is_passed is not None else "no reference"]


def test_each_row_keeps_its_own_answers():
    found = judge(["b", "b", "b", "b"], ["a|b", None, "a", "b|b|b"], separator="|")
    assert found.is_passed.to_pylist() == [True, None, False, True]


@pytest.mark.parametrize(
    "settings", [{"expected": []}, {"separator": ""}, {"expected": "a", "separator": "|"}], ids=str
)
def test_wrong_sources_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("matches_reference"), settings)


def test_a_million_separators_are_read():
    assert judge(["b"], ["|" * 999_999 + "b"], separator="|").is_passed.to_pylist() == [True]

import pyarrow as pa
import pytest
from pydantic import ValidationError

from rubrics.checks import CheckVerdicts, find_check, read_settings


def judge(output: str, reference: str | None, **settings: object) -> CheckVerdicts:
    check = find_check("matches_reference")
    shard = pa.table({"output": pa.array([output]), "reference": pa.array([reference], pa.string())})
    return check.function(shard, read_settings(check, settings))


@pytest.mark.parametrize(
    ("output", "reference", "is_passed"),
    [
        ("Paris", "Paris", True),
        (" Paris\n", "Paris", True),
        ("New\u00a0York\r\nCity", "New York  City", True),
        ("a\tb", "a b", True),
        ("ab", "a b", False),
        ("paris", "Paris", False),
        ("", "", True),
        ("", "a", False),
        ("e\u0301", "é", False),
    ],
)
def test_whitespace_is_folded_and_case_is_not(output, reference, is_passed):
    assert judge(output, reference).is_passed.to_pylist() == [is_passed]


@pytest.mark.parametrize(("output", "reference"), [("PARIS", "paris"), ("ÉTÉ", "été"), ("ΟΔΟΣ", "οδος"), ("ОК", "ок")])  # noqa: RUF001
def test_case_is_folded_when_asked(output, reference):
    assert judge(output, reference, case_sensitive=False).is_passed.to_pylist() == [True]


def test_whitespace_counts_when_asked():
    assert judge("a ", "a", fold_whitespace=False).is_passed.to_pylist() == [False]


def test_a_row_without_a_reference_is_neither():
    found = judge("Paris", None)
    assert found.reasons is not None
    assert (found.is_passed.to_pylist(), found.reasons.to_pylist()) == ([None], ["no reference"])
    assert found.evidence.to_pylist() == [None]


def test_a_miss_shows_both_texts():
    assert judge("Rome", "Paris").evidence.to_pylist() == ["found 'Rome', expected 'Paris'"]


def test_a_long_miss_is_cut():
    evidence = judge("é" * 1_000_000, "x").evidence[0].as_py()
    assert evidence == "found '" + "é" * 59 + "…', expected 'x'"


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError):
        read_settings(find_check("matches_reference"), {"strip": True})

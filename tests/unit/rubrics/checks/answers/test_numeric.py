from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.answers.numeric import number_format
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over


def judge(output: str, reference: str | None, **given_settings: object) -> CheckVerdicts:
    check = find_check("numeric_answer")
    shard = pa.table({"output": [output], "reference": pa.array([reference], pa.string())})
    return check.function(shard, read_settings(check, given_settings))


def verdict(output: str, reference: str | None, **given_settings: object) -> bool | None:
    return judge(output, reference, **given_settings).is_passed[0].as_py()


@law_over(
    ("text", "values"),
    [
        ("1,234.5", ["1234.5"]),
        ("-3 +3 \u22123", ["-3", "3", "-3"]),
        ("1e5, 1E-2", ["100000", "0.01"]),
        ("3/4", ["3/4"]),
        ("50% or 50 \\%", ["50", "50"]),
        ("$1,200 -$5 $-5 €7", ["1200", "-5", "-5", "7"]),
        (r"\frac{3}{4} -\dfrac{1}{2}", ["3/4", "-1/2"]),
        (r"2 \times 10^{-3}, 2 × 10^3, 2^{10}", ["1/500", "2000", "1024"]),
        ("1{,}234 1\\,234 1\u202f234 1'234", ["1234"] * 4),
        ("1,2,3 1,2345", ["1", "2", "3", "1", "2345"]),
        ("x2 m^2 x^{-2} a_{1} v5.7", []),
        ("3/4/2024 2024-05-01 2.1.0 10:30:00 3/0", []),
        ("5-3 GPT-4 pages 3\u20135", ["5", "3", "4", "3", "5"]),
        ("x = \u20133 \u2013 4", ["-3", "4"]),
        ("__42__ _7_ a_1 (a)_1 a__1", ["42", "7"]),
        ("2^0.5 2^{1/2} 2^{0.5}", []),  # none of them is 2, 1 or 5
        (r"90^\circ 90^{\circ} 3^{rd}", ["90", "90", "3"]),
        (".5 end.5", ["0.5", "5"]),
        ("答案是42。", ["42"]),
        ("٤٢ 42", ["42", "42"]),
        ("42km, 3rd 1.", ["42", "3", "1"]),
        (f"{' ' * 99}-$5 {'y' * 99} {'z' * 26} 7 \\%", ["-5", "7"]),
        ("", []),
        (" \r\n\x00", []),
    ],
)
def test_numbers_are_read_as_they_are_written(text, values):
    style = number_format(".")
    assert [style.value(numeral) for numeral in style.find(text)] == [Fraction(value) for value in values]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 234,5", ["1234.5"]),
        ("1.234.567,8", ["1234567.8"]),
        ("3,14", ["3.14"]),
        ("10 20 30", ["10", "20", "30"]),
    ],
)
def test_a_comma_may_stand_before_the_decimals(text, values):
    style = number_format(",")
    assert [style.value(numeral) for numeral in style.find(text)] == [Fraction(value) for value in values]


@given(st.integers(-(10**30), 10**30), st.integers(0, 12))
def test_a_number_with_grouped_digits_is_read_back(number, places):
    value = Fraction(number, 10**places)
    whole, decimals = divmod(abs(number), 10**places)
    text = f"{'-' * (number < 0)}{whole:,}" + (f".{decimals:0{places}}" if places else "")
    style = number_format(".")
    assert [style.value(numeral) for numeral in style.find(f"It is {text}.")] == [value]


@law_over(
    ("take", "output", "is_passed"),
    [
        ("last", "7 and 42", True),
        ("last", "42 and 7", False),
        ("last", "42\n\nno number here\n", True),
        ("last", "42 in x2", True),
        ("first", "42 and 7", True),
        ("first", "7 and 42", False),
        ("only", "It is 42.", True),
        ("only", "42 and 42", False),
        ("any", "1, 42 and 7", True),
        ("any", "1 and 7", False),
        ("last", "none", False),
        ("any", "", False),
        ("last", r"\boxed{42} in 3 steps", True),
        ("only", r"1 + 2, so \boxed{\frac{84}{2}}", True),
        ("last", r"\boxed{x} 42", False),
        ("last", r"\boxed{42", True),
    ],
)
def test_the_number_that_counts(take, output, is_passed):
    assert verdict(output, "42", take=take) is is_passed


@law_over(
    ("output", "given_settings", "is_passed"),
    [
        ("0.30000000000000000001", {}, False),
        ("0.3", {}, True),
        ("0.4", {"tolerance": 0.1}, True),  # exactly 0.1 away, which floats would miss
        ("0.41", {"tolerance": 0.1}, False),
        ("0.33", {"relative_tolerance": 0.1}, True),
        ("0.34", {"relative_tolerance": 0.1}, False),
        ("0.34", {"relative_tolerance": 0.1, "tolerance": 0.05}, True),
        ("30%", {"percent": "divide"}, True),
        ("30%", {}, False),
        ("3/10", {}, True),
        ("0,3", {"decimal": ","}, False),  # the reference is read so too, and "0.3" is then 0 and 3
    ],
)
def test_a_number_is_near_within_either_tolerance(output, given_settings, is_passed):
    assert verdict(output, "0.3", **given_settings) is is_passed


def test_the_evidence_shows_both_numbers():
    assert judge("So 41.", "42").evidence.to_pylist() == ["found 41, expected 42"]
    assert judge("So 41.", None, expected=["42", "43"]).evidence.to_pylist() == ["found 41, expected 42 or 1 other"]
    assert judge("None.", "42").evidence.to_pylist() == ["found no number, expected 42"]
    assert judge("1 2", "42", take="only").evidence.to_pylist() == ["found more than one number, expected 42"]
    assert judge("1 2", "42", take="any").evidence.to_pylist() == ["found 2 different numbers, expected 42"]


@pytest.mark.parametrize(
    ("output", "reference", "reason"),
    [
        ("42", None, "no reference"),
        ("42", "unknown", "no number in the reference 'unknown'"),
        ("1e999999999", "42", "too long to read"),
        ("9" * 1001, "42", "too long to read"),
        ("2^{999}", "1e2000", "reference too long to read"),
    ],
)
def test_a_row_that_cannot_be_told_says_why(output, reference, reason):
    found = judge(output, reference)
    assert found.reasons is not None
    assert found.is_passed.to_pylist() == [None]
    assert found.reasons[0].as_py().startswith(reason)


def test_the_reference_of_a_worked_solution_is_its_last_number():
    assert verdict("70,000", "He made 200,000-130,000=70,000.\n#### 70000") is True


@pytest.mark.parametrize(
    "given_settings",
    [
        {"expected": "none"},
        {"expected": ["42", "x2"]},
        {"tolerance": -1},
        {"tolerance": float("inf")},
        {"take": "best"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(given_settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("numeric_answer"), given_settings)


PIECES = ["1,234", "1/", "1.", "(", "\n", "\\boxed{", "\\frac{1}", "x2 ", "1'", "1^"]


@pytest.mark.nightly
@law_over(
    ("take", "piece", "is_passed"),
    [
        *(("any", piece, None) for piece in ("1", "1 ", "+1-")),  # too long a number, or too many
        ("last", "1", None),
        *(("last", piece, False) for piece in ("1 ", "+1-")),
        *((take, piece, False) for take in ("any", "last") for piece in PIECES),
    ],
)
def test_a_megabyte_is_read(take, piece, is_passed):
    assert verdict(piece * (1_000_000 // len(piece)), "42", take=take) is is_passed


def test_more_numbers_than_are_read_are_not_told_though_they_are_the_same():
    found = judge("1 " * 150_001, "42", take="any")
    assert found.reasons is not None
    assert found.reasons.to_pylist() == ["too many numbers: found more than 150000"]
    assert verdict("1 " * 150_000, "42", take="any") is False


@pytest.mark.parametrize("decimal", [".", ","])
def test_the_last_number_is_that_of_the_whole_text_wherever_reading_begins(decimal):
    # Each text is longer than the end of it that is read first.
    rng = np.random.default_rng(4)
    parts = ["1", "12.5", "1,234", "+", "-", " ", ", ", "^{", "}", "/", ":", "e5", "x", " 10^", "%", "$", "\n", "word "]
    for _ in range(200):
        text = "".join(rng.choice(parts, 400))
        numbers = list(number_format(decimal).find(text))
        assert number_format(decimal).find_last(text) == (numbers[-1] if numbers else None)


def test_more_numbers_than_can_be_read_are_not_told():
    found = judge(" ".join(map(str, range(1000, 52_000))), "42", take="any")
    assert found.reasons is not None
    assert found.reasons.to_pylist() == ["too many numbers: found more than 50000 different ones"]

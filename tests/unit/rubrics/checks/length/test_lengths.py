import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over


def judge(name: str, output: str | pa.Array | pa.ChunkedArray, **settings: object) -> CheckVerdicts:
    column = pa.array([output]) if isinstance(output, str) else output
    check = find_check(name)
    return check.function(pa.table({"output": column}), read_settings(check, settings))


@law_over(
    ("output", "is_passed", "evidence"),
    [
        ("", False, "0 words, at least 2 required"),
        ("one", False, "1 word, at least 2 required"),
        ("one two", True, None),
        ("one two three", True, None),
        ("a b c d", False, "4 words, at most 3 allowed"),
        ("  \n\t ", False, "0 words, at least 2 required"),
        ("你好\u3000世界", True, None),
    ],
)
def test_words_are_held_against_both_bounds(output, is_passed, evidence):
    found = judge("length_words", output, min=2, max=3)
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == ([is_passed], [evidence])


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("é", 1),
        ("e\u0301", 2),
        ("中文", 2),
        ("😀", 1),
        ("👩\u200d👧", 3),
        ("a\r\nb", 4),
        ("\x00", 1),
        (" ", 1),
    ],
)
def test_characters_are_code_points(output, count):
    assert judge("length_characters", output, min=count, max=count).is_passed.to_pylist() == [True]


def test_a_million_characters_are_a_million_characters():
    found = judge("length_characters", "é" * 1_000_000, max=999_999)
    assert found.evidence.to_pylist() == ["1000000 characters, at most 999999 allowed"]


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("a", 1),
        ("a\n", 1),
        ("a\r\nb\r\n", 2),
        ("\n", 1),
        ("\n\n a", 3),
        ("a\rb\u2028c\x0bd", 1),
        ("\u4e2d\n\U0001f600\n\x00", 3),
        ("\n" * 1_000_000, 1_000_000),
        (" " * 1_000_000, 1),
    ],
)
def test_lines_end_with_lf_or_with_the_output(output, count):
    assert judge("length_lines", output, min=count, max=count).is_passed.to_pylist() == [True]


@given(st.text(alphabet="a\n\r", max_size=12))
def test_lines_agree_with_a_plain_reading(text):
    count = len(io.StringIO(text, newline="\n").readlines())
    assert judge("length_lines", text, min=count, max=count).is_passed.to_pylist() == [True]


@law_over("output", ["", "a", "\u00e9", "e\u0301", "\u4e2d", "\U0001f600", "a\r\n", "\x00", "\u05e9"])
def test_bytes_are_those_of_utf8(output):
    count = len(output.encode())
    assert judge("length_bytes", output, min=count, max=count).is_passed.to_pylist() == [True]


def test_one_bound_alone_is_enough():
    assert judge("length_words", "a b", max=2).is_passed.to_pylist() == [True]
    assert judge("length_words", "a b", min=3).is_passed.to_pylist() == [False]


@law_over(
    "settings",
    [{}, {"min": 3, "max": 2}, {"min": -1}, {"min": True}, {"max": 2.5}, {"max": "9"}, {"max": 1, "unit": "words"}],
)
def test_bounds_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("length_words"), settings)


def test_min_above_max_is_named():
    with pytest.raises(ValidationError, match="found min 3 above max 2"):
        read_settings(find_check("length_words"), {"min": 3, "max": 2})


def test_bounds_beyond_64_bits_are_bounds():
    assert judge("length_words", "a b", max=10**30).is_passed.to_pylist() == [True]
    assert judge("length_words", "a b", min=10**30).evidence.to_pylist() == [f"2 words, at least {10**30} required"]


def test_each_of_many_counts_is_told_beside_its_own_output():
    # more rows than are looked at one by one, and the same few counts again and again
    outputs = ["a " * (place % 4) for place in range(50)]
    found = judge("length_words", outputs, min=2)
    told = ["0 words, at least 2 required", "1 word, at least 2 required", None, None] * 13
    assert found.evidence.to_pylist() == told[:50]

from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.keywords import first_matches
from gradebook.rubrics.checks.registry import find_check
from tests.support import checked
from tests.support.law_over import law_over

judge = partial(checked.judge, "matches_regex")


@law_over(
    ("pattern", "output", "expected"),
    [
        ("z+", "é zz zzz", (True, "found 'zz'")),
        ("z+", "none", (False, "found no match")),
        ("z*", "azz", (True, "found ''")),
        ("", "", (True, "found ''")),
        ("^b", "a\nb", (False, "found no match")),
        ("(?m)^b$", "a\nb\nc", (True, "found 'b'")),
        (r"\bcat\b", "concat cat", (True, "found 'cat'")),
        (r"(?P<year>\d{4})-(\d\d)", "in 2026-11.", (True, "found '2026-11'")),
        ("(?i)REFUND", "a refund", (True, "found 'refund'")),
        ("[一-龥]+", "abc 你好 def", (True, "found '你好'")),
        ("\x00", "a\x00b", (True, "found '\x00'")),
        ("a$", "a\r\n", (False, "found no match")),
    ],
)
def test_the_first_match_is_the_evidence(pattern, output, expected):
    assert judge(output, pattern=pattern) == expected


def test_a_negated_pattern_fails_on_its_match():
    assert judge("call 555", pattern=r"\d+", is_negated=True) == (False, "found '555'")
    assert judge("call me", pattern=r"\d+", is_negated=True) == (True, None)


@law_over("pattern", ["(", "(?=a)", r"(a)\1", r"\p{Nonsense}", "a\\", "(a{1000}){1000}", "(?<!x)y"])
def test_a_pattern_that_re2_cannot_take_is_a_fault_at_once(pattern):
    with pytest.raises(ValidationError, match="expected a regular expression that RE2 accepts"):
        read_settings(find_check("matches_regex"), {"pattern": pattern})


@pytest.mark.parametrize(
    "settings", [{}, {"pattern": "a", "flags": "i"}, {"pattern": 5}, {"pattern": "\ud800"}], ids=ascii
)
def test_settings_without_a_pattern_or_with_more_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("matches_regex"), settings)


def test_a_pattern_made_to_backtrack_takes_linear_time():
    assert judge("a" * 1_000_000 + "!", pattern="(a+)+$") == (False, "found no match")


def test_a_long_match_is_cut():
    # 60 characters of the match, the last one the mark of the cut
    assert judge("a" * 1_000_000, pattern="a+") == (True, "found '" + "a" * 59 + "…'")


@given(st.lists(st.text(alphabet="abé中😀\n", max_size=8), max_size=6), st.integers(0, 2), st.booleans())
def test_first_matches_of_a_slice_are_those_of_its_rows(texts, start, is_large):
    texts = [text + "bb" for text in texts]
    column = pa.array(texts, pa.large_string() if is_large else pa.string()).slice(min(start, len(texts)))
    expected = [text[text.index("b") :] for text in column.to_pylist()]
    assert first_matches(column, "(?s)b.*").to_pylist() == expected


@pytest.mark.parametrize("pattern", [r"\Qa+b", r"\C", r"a\\\C"])
def test_a_pattern_that_would_fail_at_a_match_is_a_fault_at_once(pattern):
    with pytest.raises(ValidationError, match="expected a regular expression that RE2 accepts"):
        read_settings(find_check("matches_regex"), {"pattern": pattern})


@pytest.mark.parametrize(("pattern", "output"), [(r"\Qa+b\E", "a+b"), (r"\\C", r"\C")])
def test_a_quoted_pattern_and_an_escaped_backslash_are_taken(pattern, output):
    assert judge(output, pattern=pattern) == (True, f"found '{output}'")

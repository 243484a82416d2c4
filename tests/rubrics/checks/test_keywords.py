import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rubrics.checks import CheckVerdicts, find_check, read_settings

NEITHER, ONE, BOTH = "nothing here", "a Refund", "money, refund"


def judge(name: str, output: str, **settings: object) -> tuple[bool, str | None]:
    check = find_check(name)
    found: CheckVerdicts = check.function(pa.table({"output": [output]}), read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


@pytest.mark.parametrize(
    ("name", "quantity", "output", "expected"),
    [
        ("contains", "any", NEITHER, (False, "found none of 'refund', 'money'")),
        ("contains", "any", ONE, (True, "found 'refund'")),
        ("contains", "any", BOTH, (True, "found 'refund', 'money'")),
        ("contains", "all", NEITHER, (False, "missing 'refund', 'money'")),
        ("contains", "all", ONE, (False, "missing 'money'")),
        ("contains", "all", BOTH, (True, None)),
        ("not_contains", "any", NEITHER, (True, None)),
        ("not_contains", "any", ONE, (False, "found 'refund'")),
        ("not_contains", "any", BOTH, (False, "found 'refund', 'money'")),
        ("not_contains", "all", NEITHER, (True, None)),
        ("not_contains", "all", ONE, (True, None)),
        ("not_contains", "all", BOTH, (False, "found 'refund', 'money'")),
        ("contains", "any", "", (False, "found none of 'refund', 'money'")),
    ],
)
def test_the_truth_table_of_any_and_all(name, quantity, output, expected):
    assert judge(name, output, **{quantity: ["refund", "money"]}) == expected


@pytest.mark.parametrize(
    ("output", "word", "is_found"),
    [
        ("a cat.", "cat", True),
        ("concatenate", "cat", False),
        ("cat", "cat", True),
        ("scat, cat", "cat", True),
        ("écat", "cat", False),
        ("cat\u0301", "cat", False),
        ("cat_1", "cat", False),
        ("cat\ndog", "cat", True),
        ("«cat»", "cat", True),
        ("黒猫です", "猫", False),
        ("I use C++.", "C++", True),
        ("CAT", "cat", True),
    ],
)
def test_a_whole_word_has_no_letter_mark_or_number_beside_it(output, word, is_found):
    assert judge("contains", output, any=[word], whole_word=True)[0] is is_found


@pytest.mark.parametrize(("output", "word"), [("ÉCOLE", "école"), ("ПРИВЕТ", "привет"), ("ΣΑΣ", "σας"), ("a.b", "A.B")])
def test_case_is_folded_in_every_script_unless_asked(output, word):
    assert judge("contains", output, any=[word])[0]
    assert not judge("contains", output, any=[word], case_sensitive=True)[0]


@given(st.text(max_size=12), st.text(min_size=1, max_size=3))
@hypothesis_settings(deadline=None)
def test_a_word_is_looked_for_as_it_stands(output, word):
    assert judge("contains", output, any=[word], case_sensitive=True)[0] is (word in output)


@given(
    st.text(max_size=6), st.text(max_size=6), st.text(alphabet=".*+?()[]{}|^$\\/-#& \n\x00é", min_size=1, max_size=5)
)
@hypothesis_settings(deadline=None)
def test_a_word_of_pattern_signs_is_found_in_its_place(before, after, word):
    assert judge("contains", before + word + after, all=[word])[0]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"any": ["a"], "all": ["b"]},
        {"any": []},
        {"any": [""]},
        {"any": [True]},
        {"any": "word"},
        {"any": ["a"], "whole_words": True},
        {"any": ["\ud800"]},
    ],
    ids=ascii,
)
def test_settings_that_name_no_words_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("contains"), settings)


def test_evidence_of_many_words_is_cut():
    words = [f"word{number:04}" for number in range(100)]
    evidence = judge("contains", "", all=words)[1]
    assert evidence is not None
    assert (len(evidence), evidence[-1]) == (200, "…")


def test_a_word_is_found_at_the_end_of_a_million_characters():
    assert judge("contains", "a " * 500_000 + "needle", any=["NEEDLE"], whole_word=True) == (True, "found 'NEEDLE'")

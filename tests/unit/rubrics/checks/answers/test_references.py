import re
import string

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly


def judge(output: str, reference: str | None, name: str = "matches_reference", **settings: object) -> CheckVerdicts:
    check = find_check(name)
    shard = pa.table({"output": pa.array([output]), "reference": pa.array([reference], pa.string())})
    return check.function(shard, read_settings(check, settings))


@law_over(
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


@law_over(
    ("output", "reference", "fold", "is_passed"),
    [
        ("\ufb01n", "fin", "none", False),
        ("\ufb01n", "fin", "compatibility", True),
        ("e\u0301t\u00e9", "\u00e9t\u00e9", "compatibility", True),
        ("ete", "\u00e9t\u00e9", "compatibility", False),
        ("ete", "e\u0301t\u00e9", "accents", True),
        ("\uff21", "A", "accents", True),
    ],
)
def test_forms_are_folded_when_asked(output, reference, fold, is_passed):
    assert judge(output, reference, fold=fold).is_passed.to_pylist() == [is_passed]


@pytest.mark.parametrize("fold", ["compatibility", "accents"])
def test_a_million_combining_marks_are_folded_in_time(fold):
    # sorting the marks of one letter takes quadratic time, which is why such a text keeps its form
    marks = "e" + "\u0301\u0323" * 250_000
    assert judge(marks, marks, fold=fold).is_passed.to_pylist() == [True]


@law_over(
    ("output", "reference", "is_passed"),
    [
        ("The Nile.", "nile", True),
        ("a cat and the dog!", "Cat and Dog", True),
        ("the the a an", "", False),
        ("", "A", False),  # a letter to choose, not an article
        ("The", "A", False),
        ("a.", "A", True),
        ("-", "+", False),
        ("", "!", False),
        ("U.S.", "us", True),
        ("theme", "me", False),
        ("a-b", "b", False),  # the hyphen goes first: "ab"
        ("\u201cthe cat\u201d", "\u201c cat\u201d", True),
        ("\u00e9a the", "\u00e9a", True),
        ("a\u0301 b", "b", False),  # the mark belongs to the letter
        ("\u4e2d\u6587\u3002", "\u4e2d\u6587", False),
        ("\u05e9\u05dc\u05d5\u05dd!", "\u05e9\u05dc\u05d5\u05dd", True),
        ("a\x00b\r\nc", "a\x00b c", True),
        ("\U0001f600", "\U0001f600!", True),
        ("", "x", False),
    ],
)
def test_exact_match_normalises_as_squad_does(output, reference, is_passed):
    assert judge(output, reference, "exact_match").is_passed.to_pylist() == [is_passed]


@law_over(
    ("output", "reference", "given_settings", "is_passed"),
    [
        ("Nile", "nile", {"case_sensitive": True}, False),
        ("The Nile", "Nile", {"case_sensitive": True}, True),
        ("the Nile", "Nile", {"remove_articles": False}, False),
        ("Nile!", "Nile", {"remove_punctuation": "none"}, False),
        ("\u4e2d\u6587\u3002", "\u4e2d\u6587", {"remove_punctuation": "unicode"}, True),
        ("b  c", "b c", {"fold_whitespace": False}, False),
    ],
)
def test_each_step_can_be_turned_off(output, reference, given_settings, is_passed):
    assert judge(output, reference, "exact_match", **given_settings).is_passed.to_pylist() == [is_passed]


def squad_normalised(text: str) -> str:
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    bare = bare if bare.strip() else text.lower()  # a step that leaves nothing is left out
    words = re.sub(r"\b(a|an|the)\b", " ", bare).split() or bare.split()
    return " ".join(words)


@given(
    st.lists(
        st.text(["a", "n", "A", "t", "h", "e", "\u00e9", "\u4e2d", "\u201c", " ", "\n", ".", "_"], max_size=9),
        max_size=6,
    )
)
def test_exact_match_agrees_with_squads_steps_written_out(texts):
    check = find_check("exact_match")
    others = texts[1:] + texts[:1]
    found = check.function(
        pa.table({"output": texts, "reference": others}) if texts else EMPTY, read_settings(check, {})
    )
    expected = [squad_normalised(text) == squad_normalised(other) for text, other in zip(texts, others, strict=True)]
    assert found.is_passed.to_pylist() == expected


EMPTY = pa.table({"output": pa.array([], pa.string()), "reference": pa.array([], pa.string())})


@law_over(
    ("output", "reference", "is_held", "is_whole"),
    [
        ("the NILE flows", "Nile", True, True),
        ("a Nilometer", "Nile", False, False),
        ("concatenate", "cat", True, False),
        ("the cat-like", "cat", True, True),
        ("cat", "cat", True, True),
        ("US$5", "$5", True, False),
        ("US $5.", "$5", True, True),
        ("a_cat", "cat", True, False),
        ("cate\u0301", "cat", True, False),
        ("new  york\r\n", "New York", True, True),
        ("\u4e2d\u6587\u5b57", "\u6587", True, False),
        ("(\u6587)", "\u6587", True, True),
        ("cat\x03", "cat", True, True),
        ("\x02cat", "\x02c", True, False),
        ("\U0001f600cat", "cat", True, True),
        ("", "cat", False, False),
    ],
)
def test_an_output_contains_its_reference(output, reference, is_held, is_whole):
    found = [judge(output, reference, "contains_reference", whole_word=whole).is_passed[0].as_py() for whole in (0, 1)]
    assert found == [is_held, is_whole]


WORDS = st.text(
    ["a", "b", "_", "\u00e9", "\u0301", "\u4e2d", "\u0e01", ".", "$", " ", "\u201c", "\x02", "\x03"], max_size=8
)


@given(WORDS, WORDS.filter(str.strip))
def test_a_whole_word_is_one_between_edges(output, reference):
    edge = "[^ab_\u00e9\u0301\u4e2d\u0e01]"
    expected = re.search(rf"(?:\A|(?<={edge})){re.escape(reference)}(?={edge}|\Z)", output) is not None
    found = judge(output, reference, "contains_reference", whole_word=True, fold_whitespace=False)
    assert found.is_passed.to_pylist() == [expected]


def test_a_blank_reference_is_in_anything_and_so_cannot_tell():
    found = judge("Paris", " \n", "contains_reference")
    assert found.reasons is not None
    assert (found.is_passed.to_pylist(), found.reasons.to_pylist()) == ([None], ["blank reference"])
    with pytest.raises(ValidationError, match="found a blank text"):
        read_settings(find_check("contains_reference"), {"expected": ["a", " "]})


def test_the_missing_answer_is_named():
    found = judge("It is the Rhine.", None, "contains_reference", expected=["Nile", "Amazon"])
    assert found.evidence.to_pylist() == ["does not contain 'Nile' or 1 other"]


@pytest.mark.parametrize("name", ["exact_match", "contains_reference", "matches_reference"])
@pytest.mark.parametrize("piece", ["e\u0301", *nightly(["a ", "(", "\n", "\u4e2d"])])
def test_a_megabyte_is_compared(name, piece):
    given_settings = {"whole_word": True} if name == "contains_reference" else {}
    output = piece * (1_000_000 // len(piece.encode()))
    assert judge(output, "no such text", name, **given_settings).is_passed.to_pylist() == [False]

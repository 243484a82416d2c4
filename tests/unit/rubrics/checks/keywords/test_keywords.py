import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.normalising import fold_texts
from gradebook.rubrics.checks.registry import find_check
from tests.support.checked import judge
from tests.support.law_over import law_over

NEITHER, ONE, BOTH = "nothing here", "a Refund", "money, refund"


@law_over(
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


@law_over(
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
def test_a_word_is_looked_for_as_it_stands(output, word):
    assert judge("contains", output, any=[word], case_sensitive=True)[0] is (word in output)


@given(
    st.text(max_size=6), st.text(max_size=6), st.text(alphabet=".*+?()[]{}|^$\\/-#& \n\x00é", min_size=1, max_size=5)
)
def test_a_word_of_pattern_signs_is_found_in_its_place(before, after, word):
    assert judge("contains", before + word + after, all=[word])[0]


@law_over(
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


@law_over(
    ("output", "word", "folds"),
    [
        ("caf\u00e9", "cafe", ["accents"]),
        ("cafe", "caf\u00e9", ["accents"]),
        ("cafe\u0301", "caf\u00e9", ["compatibility", "accents"]),
        ("\ufb01n", "fin", ["compatibility", "accents"]),
        ("\uff21\uff22\uff23", "abc", ["compatibility", "accents"]),
        ("x\u00b2", "x2", ["compatibility", "accents"]),
        ("\u0439", "\u0438", ["accents"]),
        ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd", ["accents"]),
        ("\uac01", "\uac00", []),  # a Korean syllable is no prefix of another
        ("\u304c", "\u304b", []),  # voiced kana are other letters
        ("\u0e17\u0e35\u0e48", "\u0e17", ["none", "compatibility", "accents"]),
        ("\u0e17\u0e35\u0e48", "\u0e17\u0e48", []),
        ("STRASSE", "stra\u00dfe", []),
    ],
)
def test_folding_reads_other_ways_to_write_a_word(output, word, folds):
    found = [
        fold for fold in ("none", "compatibility", "accents") if judge("contains", output, any=[word], fold=fold)[0]
    ]
    assert found == folds


def test_a_whole_word_is_one_after_folding():
    assert judge("contains", "un caf\u00e9.", any=["cafe"], fold="accents", whole_word=True) == (True, "found 'cafe'")
    assert not judge("contains", "un caf\u00e9s.", any=["cafe"], fold="accents", whole_word=True)[0]


@given(st.text(max_size=12))
def test_a_text_contains_itself_however_it_is_composed(text):
    word = unicodedata.normalize("NFD", text) or "x"
    assert judge("contains", text or "x", any=[word], fold="compatibility")[0]


def test_folding_leaves_ascii_alone():
    texts = pa.array(["a b\n", None, ""])
    assert all(fold_texts(texts, fold).equals(texts) for fold in ("none", "compatibility", "accents"))


@law_over("fold", ["compatibility", "accents"])
@law_over(
    "marks",
    ["\u0301\u0316", "\u0e48\u0e38", "\uff9e\u0301", "\u0f71\u0f74", "\u05b0\u05c2", "\U0001d165\U0001d16e"],
)
def test_a_hundred_thousand_marks_in_a_row_are_folded(marks, fold):
    assert judge("contains", "a" + marks * 50_000 + " needle", any=["NEEDLE"], fold=fold)[0]


@pytest.mark.parametrize("settings", [{"any": ["\u0301"], "fold": "accents"}, {"any": ["a"], "fold": "all"}], ids=ascii)
def test_settings_that_fold_a_word_away_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("contains"), settings)


WORDS = ["ab", "é", "É", "中", "a.b", "K", "\u017f", "b", "x" * 1_500, "y" * 1_500, "ca"]
OUTPUT = st.text(alphabet=["a", "b", ".", "é", "中", " ", "_", "\u212a", "s", "c", "—", "🎉", "\u0301"], max_size=8)


@pytest.mark.parametrize("case_sensitive", [False, True])
@pytest.mark.parametrize("whole_word", [False, True])
@given(st.lists(OUTPUT, max_size=5))
def test_a_long_list_finds_what_each_of_its_words_does(case_sensitive, whole_word, outputs):
    check, shard = find_check("not_contains"), pa.table({"output": pa.array(outputs, pa.string())})
    given_settings = {"case_sensitive": case_sensitive, "whole_word": whole_word}

    def verdicts(words: list[str]) -> list[bool]:
        found = check.function(shard, read_settings(check, {**given_settings, "any": words}))
        return found.is_passed.to_pylist()

    alone = [verdicts([word]) for word in WORDS]
    assert verdicts(WORDS) == [all(column) for column in zip(*alone, strict=True)]


def test_a_thousand_words_are_looked_for_and_the_missing_are_named():
    words = [f"word{number}" for number in range(1_000)]
    assert judge("contains", "say WORD7!", any=words, whole_word=True) == (True, "found 'word7'")
    is_passed, evidence = judge("contains", " ".join(words[1:]), all=words, whole_word=True)
    assert (is_passed, evidence) == (False, "missing 'word0'")


@law_over("written", ["It's", "It\u2019s", "It\u02bcs", "It\uff07s"])
@law_over("asked", ["it's", "it\u2019s"])
def test_an_apostrophe_in_a_word_matches_in_any_shape(written, asked):
    assert judge("not_contains", f"{written} done", any=[asked])[0] is False


def test_an_apostrophe_alone_is_looked_for_as_it_stands():
    assert judge("not_contains", "It's done", any=["\u2019"])[0] is True


PARTS = st.sampled_from(
    [
        "cat",
        "CAT",
        "K",
        "k",
        "\u212a",
        "s",
        "\u017f",
        "\u0131",
        "i",
        "\u0130",
        "\u00df",
        "\u1e9e",
        "a_b",
        "\u4e2d",
        "ca",
    ]
)
GAPS = st.sampled_from([" ", "-", "\n", "", "\u3002", "\u0301"])
MANY = ["cat", "Cat", "k", "S", "\u017f", "\u0131", "I", "\u00df", "a_b", "\u4e2d", "ca", "dog", "cat k"]


@given(
    st.lists(st.lists(st.tuples(PARTS, GAPS).map("".join), max_size=6).map("".join), min_size=1, max_size=6),
    st.booleans(),
)
def test_many_whole_words_are_found_as_each_alone(outputs, case_sensitive):
    check, shard = find_check("contains"), pa.table({"output": outputs})
    given_settings = {"whole_word": True, "case_sensitive": case_sensitive}
    alone = [check.function(shard, read_settings(check, {"any": [word], **given_settings})) for word in MANY]
    expected = [all(found) for found in zip(*(each.is_passed.to_pylist() for each in alone), strict=True)]
    any_expected = [any(found) for found in zip(*(each.is_passed.to_pylist() for each in alone), strict=True)]
    for key, passed in (("all", expected), ("any", any_expected)):
        found = check.function(shard, read_settings(check, {key: MANY, **given_settings}))
        assert found.is_passed.to_pylist() == passed


@pytest.mark.parametrize("unit", ["\u00e9 ", "\uac00", "\ufdfa", "\U000113c5", "\U00016121"])
def test_accents_are_folded_alike_in_long_texts_and_short_ones(unit):
    short, count = fold_texts(pa.array([unit]), "accents")[0].as_py(), 12_000 // len(unit.encode())
    assert fold_texts(pa.array([unit * count]), "accents").to_pylist() == [short * count]

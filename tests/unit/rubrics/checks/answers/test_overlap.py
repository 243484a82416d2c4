import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

MEASURES = ["token_f1", "rouge_n", "rouge_l", "edit_similarity", "bleu", "chrf"]


def judge(name: str, outputs: list[str], references: list[str | None], **given_settings: object) -> CheckVerdicts:
    check = find_check(name)
    shard = pa.table({"output": pa.array(outputs, pa.string()), "reference": pa.array(references, pa.string())})
    return check.function(shard, read_settings(check, {"min": 0, **given_settings}))


def measure(name: str, output: str, reference: str | None, **given_settings: object) -> float:
    return float(judge(name, [output], [reference], **given_settings).evidence[0].as_py().split()[-1])


@law_over("name", MEASURES)
@law_over(
    ("output", "reference", "value"),
    [
        ("", "", 1),
        ("", "Nile", 0),
        ("Nile", "", 0),
        (" \r\n", "Nile", 0),
        ("Nile", "Nile", 1),
        ("中文字", "中文字", 1),
        ("xyz", "Nile", 0),
        ("ไทย", "ไทย", 1),
        ("שלום", "שלום", 1),
    ],
)
def test_the_ends_of_every_measure(name, output, reference, value):
    assert measure(name, output, reference) == value


@law_over("name", MEASURES)
def test_the_best_of_several_accepted_answers_counts(name):
    assert measure(name, "the Nile", None, expected=["Amazon", "the Nile", ""]) == 1


@law_over("name", MEASURES)
def test_a_row_without_a_reference_stays_unscored(name):
    found = judge(name, ["Nile", "Nile"], [None, "Nile"])
    assert found.reasons is not None
    assert (found.is_passed.to_pylist(), found.reasons.to_pylist()) == ([None, True], ["no reference", None])


@law_over("name", MEASURES)
@law_over("bounds", [{"min": 40}, {"max": -0.1}, {"min": None}, {"min": None, "levels": {"good": 50}}])
def test_bounds_beyond_a_share_are_refused(name, bounds):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), {"min": 0, **bounds})


@law_over(
    ("output", "reference", "value"),
    [
        ("The river Nile.", "the Nile", 0.666667),  # river nile | nile: 2 x 1 / 3
        ("a b b c", "b b d", 0.666667),  # b b c | b b d, "a" is an article: 2 x 2 / 6
        ("the a an", "", 0),
        ("", "A", 0),
        ("\U0001f44d", "\U0001f44e", 0),
        ("我爱北京", "我爱上海", 0.5),  # 2 x 2 / 8
    ],
)
def test_token_f1_by_hand(output, reference, value):
    assert measure("token_f1", output, reference) == value


@law_over(
    ("n", "output", "reference", "value"),
    [
        (1, "the cat sat", "The cat, the mat!", 0.571429),  # the cat | 2 x 2 / (3 + 4)
        (2, "the cat sat", "The cat, the mat!", 0.4),  # the cat | 2 x 1 / (2 + 3)
        (2, "the cat the cat", "the cat", 0.5),  # 2 x 1 / (3 + 1)
        (3, "Paris", "paris", 1),  # no runs of three: the longest that there are
        (2, "Paris", "Rome", 0),
        (2, "Paris", "in Paris", 0),
        (1, "snake_case", "snake case", 1),
        (1, "cafe\u0301", "cafe", 0),
        (1, "", "\U0001f44d", 0),
        (1, "\U0001f44d", "\U0001f44d", 1),
        (1, "...", "!", 0),
    ],
)
def test_rouge_n_by_hand(n, output, reference, value):
    assert measure("rouge_n", output, reference, n=n) == value


@pytest.mark.parametrize(
    ("output", "value"),
    # Lin 2004, section 3.1: against "police killed the gunman", of four words, with beta 1
    [("police kill the gunman", 0.75), ("the gunman kill police", 0.5), ("the gunman police killed", 0.5)],
)
def test_rouge_l_gives_lins_examples(output, value):
    assert measure("rouge_l", output, "police killed the gunman") == value


@law_over(
    ("output", "reference", "given_settings", "value"),
    [
        ("sitting", "kitten", {}, 0.571429),  # 1 - 3 / 7
        ("Nile", "nile", {}, 0.75),
        ("Nile", "nile", {"case_sensitive": False}, 1),
        ("a  b", "a b", {}, 1),
        ("a  b", "a b", {"fold_whitespace": False}, 0.75),
        ("the old cat sat", "the cat sat", {"unit": "words"}, 0.75),
        ("我爱北京", "我爱上海", {"unit": "words"}, 0.5),
        ("😀😀", "😀", {}, 0.5),
    ],
)
def test_edit_similarity_by_hand(output, reference, given_settings, value):
    assert measure("edit_similarity", output, reference, **given_settings) == value


TEXTS = st.lists(st.text(["a", "b", "c", " ", "é", "中", "\n", "."], max_size=14), min_size=2, max_size=6)


def plain_words(text: str) -> list[str]:
    return re.findall(r"中|[a-zé]+", text) or text.split()


@given(TEXTS, st.integers(1, 4))
def test_rouge_n_agrees_with_counters(texts, n):
    found = judge("rouge_n", texts[1:], texts[:-1], n=n).evidence.to_pylist()
    expected = [plain_rouge(output, reference, n) for output, reference in zip(texts[1:], texts[:-1], strict=True)]
    assert [float(text.split()[-1]) for text in found] == pytest.approx(expected, abs=1e-6)


def plain_rouge(output: str, reference: str, n: int) -> float:
    sides = [plain_words(output), plain_words(reference)]
    n = max(1, min(n, *[max(map(len, sides))]))
    left, right = (Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in sides)
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


@given(TEXTS)
def test_rouge_l_agrees_with_the_table_of_subsequences(texts):
    found = judge("rouge_l", texts[1:], texts[:-1]).evidence.to_pylist()
    expected = [plain_rouge_l(*map(plain_words, pair)) for pair in zip(texts[1:], texts[:-1], strict=True)]
    assert [float(text.split()[-1]) for text in found] == pytest.approx(expected, abs=1e-6)


def plain_rouge_l(left: list[str], right: list[str]) -> float:
    table = np.zeros((len(left) + 1, len(right) + 1), int)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    total = len(left) + len(right)
    return 2 * table[-1, -1] / total if total else 1.0


@pytest.mark.parametrize("name", ["rouge_l", "edit_similarity"])
def test_texts_that_would_take_too_long_stay_unscored(name):
    texts = ["a b " * 40_000, "b a " * 40_000]  # 80,000 words and 159,999 characters on either side
    found = judge(name, texts, texts[::-1])
    assert found.reasons is not None
    assert found.is_passed.to_pylist() == [None, None]
    assert found.reasons[0].as_py().startswith("too long to compare: found ")


def test_a_text_beyond_the_bound_is_named_by_its_length():
    found = judge("chrf", ["a" * 1_114_112], ["b"])
    assert found.reasons is not None
    assert found.reasons.to_pylist() == [
        "too long to compare: found 1114112 and 1 words or characters, at most 1114112 together"
    ]


@law_over("name", MEASURES)
def test_a_long_output_is_not_held_against_very_many_answers(name):
    # 100,000 words or characters, and 23 times as many: more than 2,228,224
    output, answers = "ab " * 50_000, ["a b c d", *(str(place) for place in range(22))]
    output = output if name in {"chrf", "edit_similarity"} else "a " * 100_000
    few = judge(name, [output], [None], expected=answers[:2])
    many = judge(name, [output, "a b c d"], [None, None], expected=answers)
    assert few.is_passed.to_pylist() == [True]
    assert many.is_passed.to_pylist() == [None, True]
    assert many.reasons is not None
    assert "words or characters and 23 accepted answers" in many.reasons[0].as_py()


@pytest.mark.nightly
@law_over("name", MEASURES)
@pytest.mark.parametrize("piece", ["a ", *nightly(["(", "\n", "中"])])
def test_a_megabyte_is_measured(name, piece):
    found = judge(name, [piece * (1_000_000 // len(piece.encode()))], ["no such text"])
    assert found.is_passed.to_pylist() == [None if name == "bleu" else True]  # too long for BLEU, and it says so
    assert judge(name, [piece * (590_000 // len(piece.encode()))], ["no such text"]).is_passed.to_pylist() == [True]


def test_many_texts_are_measured_as_each_alone():
    # more than one block of pairs
    texts = [f"{place} the cat {place % 7} sat on {place % 13} mats " * 40 for place in range(700)]
    others = texts[1:] + texts[:1]
    together = judge("rouge_n", texts, others, n=2).evidence.to_pylist()
    assert together[::100] == [
        judge("rouge_n", [texts[i]], [others[i]], n=2).evidence[0].as_py() for i in range(0, 700, 100)
    ]

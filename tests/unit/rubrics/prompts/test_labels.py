"""The labels under which levels are shown."""

from collections import Counter
from itertools import combinations

import pytest

from gradebook.rubrics.prompts.prompt_text import CODES, LETTERS, USUAL_CODE_COUNT, draw_labels, shuffle_labels


def test_codes_are_four_consonants_each():
    assert all(len(code) == 4 and not set(code) & set("AEIOUY0123456789") and code.isupper() for code in CODES)


def test_no_two_codes_are_alike_but_for_one_letter():
    assert min(sum(a != b for a, b in zip(*pair, strict=True)) for pair in combinations(CODES, 2)) >= 2


def test_no_two_codes_have_the_same_letters():
    assert len({"".join(sorted(code)) for code in CODES}) == len(CODES) == 128


def test_there_are_26_letters():
    assert "".join(sorted(LETTERS)) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(("count", "pool"), [(2, 24), (12, 24), (13, 128), (102, 128)])
def test_the_larger_pool_is_for_more_than_half_the_small_one(count: int, pool: int):
    without_usual = " ".join(CODES[: USUAL_CODE_COUNT - count] if pool == 24 else CODES[: 128 - count])
    assert draw_labels(count, without_usual) == CODES[pool - count : pool]


def test_where_too_few_are_left_those_that_occur_fill_the_gap():
    # all but the last of the usual ones occur: it comes first, then those that occur, in order
    assert draw_labels(3, " ".join(CODES[:23])) == (CODES[23], CODES[0], CODES[1])


@pytest.mark.parametrize("text", ["wmxp", "aWMXPz", "w\u200bm\u2060x\u00adp", "\uff37\uff2d\uff38\uff30"])
def test_a_code_occurs_in_any_case_inside_words_and_behind_invisible_characters(text: str):
    assert CODES[0] == "WMXP" and CODES[0] not in draw_labels(12, text)


@pytest.mark.parametrize(("text", "is_there"), [("b", False), ("take B!", False), ("bob_", True), ("B2", True)])
def test_a_letter_occurs_where_it_stands_alone(text: str, is_there: bool):
    assert ("B" in draw_labels(5, text, is_letters=True)) == is_there


@pytest.mark.parametrize(("count", "is_letters"), [(129, False), (27, True)])
def test_there_are_no_more_labels_than_there_are(count: int, is_letters: bool):
    with pytest.raises(ValueError, match=f"found {count} levels to label"):
        draw_labels(count, "", is_letters=is_letters)


def test_each_order_is_as_likely_as_any_other():
    # 6 orders in 6,000 draws: 1,000 each, standard deviation sqrt(6000 * 1/6 * 5/6) = 28.9; 5 of them are 145
    counts = Counter(tuple(shuffle_labels("ABC", f"{number:032x}")) for number in range(6_000))
    assert len(counts) == 6 and all(abs(count - 1_000) < 145 for count in counts.values())

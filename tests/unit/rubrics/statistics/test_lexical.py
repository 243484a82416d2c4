"""Lexical vectors, beside values counted by hand."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.similarity import LexicalVectors


def cosine(left: str, right: str, texts: tuple[str, ...] = ()) -> float:
    vectors = LexicalVectors(texts).vectors([left, right])
    return float((vectors[0] @ vectors[1].T)[0, 0])


def test_texts_of_one_word_share_their_n_grams():
    # " ab ": " ab", "ab ", " ab "; " abc ": " ab", "abc", "bc ", " abc", "abc ", " abc ". One of 3 and of 6 is shared.
    assert cosine("ab", "abc") == pytest.approx(1 / np.sqrt(3 * 6))


def test_an_n_gram_that_texts_have_weighs_less():
    # n = 1, and the text has all three n-grams of "ab", so their idf is 1; that of all others is 1 + ln 2.
    idf = 1 + np.log(2)
    assert cosine("ab", "abc", ("ab",)) == pytest.approx(1 / np.sqrt(3 * (1 + 5 * idf**2)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The  Nile", "the nile\n"),
        ("\uff21\uff22\uff23", "abc"),
        ("e\u0301te\u0301", "été"),
        ("猫", "猫"),
        ("a" * 1_000_000, "a" * 1_000_000),
    ],
    ids=["case and blanks", "wide", "marks", "one character", "a megabyte"],
)
def test_the_same_text_has_1(left: str, right: str):
    assert cosine(left, right) == pytest.approx(1)


def test_a_blank_text_has_0_and_other_texts_nearly():
    assert cosine(" \n", "abc") == 0
    assert cosine("the quick brown fox jumps", "zzz yyy xxx www") < 0.05  # two n-grams may have one bucket

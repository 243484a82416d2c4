import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.style.readability import LINE_END, _count_all, _count_syllables
from tests.support.law_over import law_over

TWO_SENTENCES = "The cat sat on the mat. It was warm."  # 9 words, 2 sentences, 26 letters, 9 syllables


def measure(output: str, formula: str) -> str | None:
    check = find_check("reading_level")
    found = check.function(pa.table({"output": [output]}), read_settings(check, {"formula": formula, "min": -1e9}))
    return found.evidence[0].as_py()


def count(output: str) -> tuple[float, ...]:
    return tuple(float(column[0]) for column in _count_all(pa.array([output])))[:5]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        # 0.39 * 9 / 2 + 11.8 * 9 / 9 - 15.59 = 1.755 + 11.8 - 15.59
        ("flesch_kincaid", "Flesch-Kincaid grade -2.035"),
        # 206.835 - 1.015 * 4.5 - 84.6 * 1 = 206.835 - 4.5675 - 84.6
        ("flesch_ease", "Flesch reading ease 117.6675"),
        # (5.88 * 26 - 29.6 * 2) / 9 - 15.8 = (152.88 - 59.2) / 9 - 15.8 = 10.408889 - 15.8
        ("coleman_liau", "Coleman-Liau index -5.391111"),
        # 4.71 * 26 / 9 + 0.5 * 4.5 - 21.43 = 13.606667 + 2.25 - 21.43
        ("ari", "automated readability index -5.573333"),
        # 0.4 * (4.5 + 100 * 0 / 9)
        ("gunning_fog", "Gunning fog index 1.8"),
    ],
)
def test_each_formula_gives_the_number_worked_out_by_hand(formula, expected):
    assert measure(TWO_SENTENCES, formula) == expected


def test_words_of_three_syllables_count_for_the_fog():
    # 4 words, 1 sentence, 2 long ones: 0.4 * (4 + 100 * 2 / 4) = 0.4 * 54
    assert measure("Beautiful animals run fast.", "gunning_fog") == "Gunning fog index 21.6"


@law_over(
    ("output", "words", "sentences"),
    [
        ("Wait... what?! No.", 3, 3),
        ("Pi is 3.14 and v1.2 is out.", 7, 1),
        ("Dr. Ada met J. Doe, e.g. here.", 7, 1),
        ("Title\n\nOne line.\nno end\ngoes on", 7, 3),
        ("a line\ngoes on\r\nover ends", 6, 1),
        ("1. First\n2. Second", 2, 2),
        ("- one\n- two", 2, 2),
        ('He said "stop." Then (he left.) Yes', 7, 3),
        ("It was in 12. Then 13.", 6, 2),
        ("— … *** 😀", 0, 0),
        ("well-known don't", 2, 1),
        ("\u05e9\u05dc\u05d5\u05dd. \u05db\u05df.", 2, 2),
        (f"a {LINE_END} b", 2, 1),
    ],
)
def test_words_and_sentences_are_counted_as_the_documentation_says(output, words, sentences):
    assert count(output)[:2] == (words, sentences)


@pytest.mark.parametrize(
    ("syllables", "words"),
    [
        (1, "a the make walked called time eyes smile would school through breathe bathes nth hmm don't strengths"),
        (
            2,
            "table little wanted boxes being trying didn't science quiet lion create people language poem settled",
        ),
        (3, "radio beautiful animal important idea usual medium serious creative banana violence manual"),
        (4, "variety information experience january society material biology"),
        (5, "organization university communication"),
    ],
)
def test_the_heuristic_counts_the_syllables_of_common_words(syllables, words):
    assert [word for word in words.split() if _count_syllables(word) != syllables] == []


@law_over(
    ("output", "settings", "reason"),
    [
        ("", {}, "too few words: expected at least 1"),
        (" \n\t", {}, "too few words: expected at least 1"),
        ("😀 !!!", {"formula": "ari"}, "too few words: expected at least 1"),
        ("One two.", {"min_words": 3}, "too few words: expected at least 3"),
        ("Привет, мир", {}, "half of the words or more are not plain English letters"),
        ("これは日本語です。", {"formula": "ari"}, "half of the words or more are in a script without spaces"),
        ("ภาษาไทย", {"formula": "coleman_liau"}, "half of the words or more are in a script without spaces"),
    ],
)
def test_it_cannot_tell_what_the_formula_is_not_for(output, settings, reason):
    check = find_check("reading_level")
    found = check.function(pa.table({"output": [output]}), read_settings(check, {"max": 9, **settings}))
    assert (found.is_passed[0].as_py(), found.reasons[0].as_py()) == (None, reason)


def test_a_formula_of_letters_takes_other_alphabets():
    # 2 words, 1 sentence, 9 letters: 4.71 * 4.5 + 0.5 * 2 - 21.43 = 21.195 + 1 - 21.43
    assert measure("Привет, мир.", "ari") == "automated readability index 0.765"


def test_a_level_is_reached():
    check = find_check("reading_level")
    settings = read_settings(check, {"formula": "flesch_ease", "levels": {"good": 60, "bad": 0}})
    assert check.function(pa.table({"output": [TWO_SENTENCES]}), settings).level_ids.to_pylist() == ["good"]


@pytest.mark.parametrize(
    "settings", [{}, {"formula": "smog", "max": 3}, {"max": 3, "min_words": 0}, {"max": 3, "n": 1}], ids=str
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("reading_level"), settings)


@pytest.mark.parametrize("text", ["a" * 10**6, "." * 10**6 + "x", "io" * 500_000, "a.\n" * 333_333, "\x00" * 10**6])
def test_a_hostile_text_gets_a_verdict(text):
    assert all(np.isfinite(column[0]) for column in _count_all(pa.array([text])))


@given(st.lists(st.text(alphabet="ab. E\n1é中!", max_size=30), max_size=5))
def test_words_are_those_that_split_gives_with_a_letter_or_a_digit(texts):
    expected = [sum(any(map(str.isalnum, word)) for word in text.split()) for text in texts]
    found = _count_all(pa.array(texts, pa.string()))
    numbered = [text for text in texts if "1." in text]
    assert numbered or found.words.tolist() == expected
    assert all(found.sentences <= found.words) and not math.isnan(found.letters.sum())

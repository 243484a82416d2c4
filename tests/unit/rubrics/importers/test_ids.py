"""Ids made of foreign names."""

import pytest

from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds, identifier, may_derive_from
from tests.support.bounded import bounded_work


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("tone_fit", "tone_fit"),
        ("Step correctness (1-5)", "step_correctness_1_5"),
        ("7 days", "criterion_7_days"),
        ("漢字", "criterion"),
        ("word " * 20, "word_word_word_word_word_word_word_word_word"),  # nine words of five characters are 44
    ],
)
def test_a_name_becomes_an_id_of_its_first_words(name: str, made: str):
    assert identifier(name) == made


def test_the_second_of_a_name_has_a_number():
    ids = DistinctIds()
    assert [ids.take(name) for name in ("tone", "Tone", "tone_2", "tone")] == ["tone", "tone_2", "tone_2_2", "tone_3"]


def test_names_that_fit_stay_as_they_are():
    assert DistinctIds("level", LEVEL_ID).take("A-1.5") == "A-1.5"


def test_a_name_of_a_hundred_thousand_takes_no_longer_than_others():
    ids = DistinctIds()
    with bounded_work():
        assert len({ids.take("tone") for _ in range(100_000)}) == 100_000


@pytest.mark.parametrize(("made", "answer"), [("tone", True), ("tone_12", True), ("tone_of", False)])
def test_an_id_is_known_as_that_of_its_name(made: str, answer: bool):
    assert may_derive_from(made, "Tone") is answer

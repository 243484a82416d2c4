"""Selectable thresholds, and the sentence about them."""

import pytest

from gradebook.rubrics.text.wording import share_words
from gradebook.tasks.reporting.sections.thresholds import Grid, Meeting, counts_met, grid_of, meeting_words
from tests.support.law_over import law_over


def meeting(name: str, *counts: int, n: int = 4, is_baseline: bool = False) -> Meeting:
    return Meeting(name, "c1", is_baseline, n, counts)


TWO = Grid(0.5, 0.005, 2, 0)


def test_the_rubrics_threshold_is_always_on_the_grid():
    grid = grid_of(0.2, 1.0, 2 / 3)
    assert grid.at(grid.start) == pytest.approx(2 / 3)
    assert grid.at(0) <= 0.2 < grid.at(1)
    assert grid.at(grid.count - 2) < 1.0 <= grid.at(grid.count - 1)


def test_a_grid_of_tenths_has_steps_of_five_thousandths():
    grid = grid_of(0.0, 1.0, 0.7)
    assert (grid.at(0), grid.at(1), grid.at(grid.count - 1), grid.count) == (0.0, 0.005, 1.0, 201)


def test_a_wide_range_has_wider_steps():
    grid = grid_of(-50.0, 1.0, 0.5)
    assert grid.count <= 1002
    assert grid.at(0) <= -50.0


def test_equal_scores_still_give_a_grid_of_thresholds():
    assert grid_of(1.0, 1.0, 1.0).count == 11


def test_an_output_meets_every_threshold_up_to_its_score():
    # one output below the first threshold, two that meet only the first, one far above the last
    rows = [{"step": -1, "n": 1}, {"step": 0, "n": 2}, {"step": 7, "n": 1}]
    assert counts_met(TWO, rows) == (3, 1)


def test_the_two_best_models_at_the_threshold_are_in_the_sentence():
    three = [meeting("A", 2, 1), meeting("B", 3, 0), meeting("C", 1, 2)]
    assert meeting_words(TWO, three, 0) == "75% of the outputs of B meet 0.500, 50% of those of A."
    assert meeting_words(TWO, three, 1) == "50% of the outputs of C meet 0.505, 25% of those of A."


def test_the_sentence_names_the_baseline_only_for_a_single_model():
    pair = [meeting("A", 2, 1), meeting("A in run", 4, 4, is_baseline=True)]
    assert meeting_words(TWO, pair, 0) == "50% of the outputs of A meet 0.500, 100% of those of A in run."
    assert "in run" not in meeting_words(TWO, [*pair, meeting("B", 0, 0)], 0)


def test_a_model_without_scores_is_not_in_the_sentence():
    pair = [meeting("A", 1, 0), meeting("B", 0, 0, n=0)]
    assert meeting_words(TWO, pair, 0) == "25% of the outputs of A meet 0.500."


@law_over(
    ("count", "total", "words"),
    [(37, 50, "74%"), (1, 16, "6.2%"), (3, 16, "18.8%"), (1, 5000, "<0.1%"), (4999, 5000, ">99.9%"), (0, 0, "–")],
)
def test_a_share_has_at_most_three_digits_and_is_0_or_100_percent_only_if_exact(count: int, total: int, words: str):
    assert share_words(count, total) == words
    assert (share_words(0, 7), share_words(7, 7)) == ("0%", "100%")

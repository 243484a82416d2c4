"""The thresholds that a reader can choose from, and the words about them."""

import pytest

from gradebook.tasks.reporting.sections.spread.grids import Grid, Meeting, counts_met, grid_of, meeting_words
from gradebook.tasks.system.number_format import share_words


def meeting(name: str, *counts: int, n: int = 4, is_baseline: bool = False) -> Meeting:
    return Meeting(name, "c1", is_baseline, n, counts)


TWO = Grid(0.5, 0.005, 2, 0)


def test_the_rubrics_threshold_is_on_the_grid_wherever_it_lies():
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


def test_outputs_that_all_have_one_score_leave_room_to_move():
    assert grid_of(1.0, 1.0, 1.0).count == 11


def test_an_output_meets_every_threshold_up_to_its_score():
    # one output below the first threshold, two that meet the first alone, one far beyond the last
    rows = [{"step": -1, "n": 1}, {"step": 0, "n": 2}, {"step": 7, "n": 1}]
    assert counts_met(TWO, rows) == (3, 1)


def test_the_two_best_models_at_the_threshold_are_in_the_sentence():
    three = [meeting("A", 2, 1), meeting("B", 3, 0), meeting("C", 1, 2)]
    assert meeting_words(TWO, three, 0) == "With B, 75% of outputs meet 0.500, with A 50%."
    assert meeting_words(TWO, three, 1) == "With C, 50% of outputs meet 0.505, with A 25%."


def test_a_baseline_is_in_the_sentence_of_one_model_alone():
    pair = [meeting("A", 2, 1), meeting("A in run", 4, 4, is_baseline=True)]
    assert meeting_words(TWO, pair, 0) == "With A, 50% of outputs meet 0.500, with A in run 100%."
    assert "in run" not in meeting_words(TWO, [*pair, meeting("B", 0, 0)], 0)


def test_a_model_without_scores_is_not_in_the_sentence():
    assert meeting_words(TWO, [meeting("A", 1, 0), meeting("B", 0, 0, n=0)], 0) == "With A, 25% of outputs meet 0.500."


@pytest.mark.parametrize(
    ("count", "total", "words"),
    [(37, 50, "74%"), (1, 16, "6.2%"), (3, 16, "18.8%"), (1, 5000, "<0.1%"), (4999, 5000, ">99.9%"), (0, 0, "–")],
)
def test_a_share_has_three_digits_at_most_and_is_all_or_none_only_where_it_is(count: int, total: int, words: str):
    assert share_words(count, total) == words
    assert (share_words(0, 7), share_words(7, 7)) == ("0%", "100%")

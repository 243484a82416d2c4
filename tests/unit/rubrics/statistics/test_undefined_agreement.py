"""Agreement where it can't be told, or its interval: null and the reason, never a number that is none."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import measure_raters, measure_sides
from gradebook.rubrics.text.reasons import reason_words

NONE = np.array([])
LEVELS = np.array([0.0, 0.5, 1.0])


def measured(matrix, scale=NONE, among=measure_sides):
    matrix = np.array(matrix, dtype=float)
    return {each.statistic: each for each in among(matrix, matrix, scale).measures}


@pytest.fixture(scope="module")
def constant():
    return measured(np.full((3, 50), 0.7), among=measure_raters)


@pytest.fixture(scope="module")
def opposite():
    # 2 x 4 ratings: mean squares of outputs and raters 0, of errors 4/3: (0 - 4/3) / (0 + (0 - 4/3) / 4) = 4
    return measured([[0, 1, 0, 1], [1, 0, 1, 0]])


def test_raters_who_say_the_opposite_have_no_icc_of_two_way_means(opposite):
    found = opposite["icc_2_k"]
    expected = "the outputs' mean ratings differ too little beside the raters' errors, or are too few"
    assert (found.value, reason_words(found.reason)) == (None, expected)


@pytest.mark.parametrize("name", ["icc_1_k", "icc_3_k"])
def test_equal_means_of_outputs_have_no_icc_of_means_and_say_why(opposite, name):
    assert (opposite[name].value, reason_words(opposite[name].reason)) == (
        None,
        "the outputs' mean ratings are all equal, or too few",
    )


@pytest.mark.parametrize("name", ["icc_1_1", "icc_2_1", "icc_3_1"])
def test_raters_who_say_the_opposite_have_an_icc_of_one_rating(opposite, name):
    # (0 - 4/3) / (0 + 4/3), less 2 x 4/3 / 4 below in (2,1): -4/3 over 2/3; one-way within is 1: -1
    assert opposite[name].value == pytest.approx({"icc_2_1": -2.0}.get(name, -1.0))


@pytest.mark.parametrize("name", ["alpha_interval", "alpha_ordinal", "icc_1_1", "icc_2_1", "icc_3_k"])
def test_equal_ratings_that_are_no_round_number_are_equal(constant, name):
    assert (constant[name].value, constant[name].ci_low) == (None, None)
    assert "equal" in reason_words(constant[name].reason)


def test_a_rating_that_differs_alone_has_an_alpha_and_no_interval():
    # without that one of 5,000 outputs all ratings are equal
    others = np.full(5_000, 0.7)
    others[0] = 0.2
    found = measured([np.full(5_000, 0.7), others])["alpha_interval"]
    assert found.value == pytest.approx(0.0, abs=1e-3)
    assert (
        reason_words(found.reason)
        == "100% of the ratings are equal, and 1 of 5000 cases have another one: expected 25 or more for an interval"
    )


def test_perfect_agreement_has_the_interval_of_a_rate_and_no_other():
    # Wilson of 10 of 10: 1 / (1 + 3.8415 / 10) = 0.7225
    found = measured([[0, 1, 0.5, 1, 0, 0.5, 1, 1, 0, 0]] * 2, LEVELS)
    assert (found["percent_agreement"].ci_low, found["percent_agreement"].ci_high) == (
        pytest.approx(0.7225, abs=1e-4),
        pytest.approx(1.0),
    )
    assert (found["cohen_kappa"].value, found["cohen_kappa"].ci_low) == (1.0, None)
    assert reason_words(found["cohen_kappa"].reason) == "it is the same without any of the cases, which tells no width"


def test_equal_differences_have_the_bias_interval_of_the_rule_of_three():
    # 10 differences of .25: 1 - .05^(1/10) = .2589 of them may be otherwise: .25 - .2589 x 1.25, .25 + .2589 x .75
    found = measured([[0.25, 0.5, 0.75, 1.0, 0.5] * 2, [0.0, 0.25, 0.5, 0.75, 0.25] * 2])["bias"]
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.0736, 0.4442), abs=1e-4)


def test_few_cases_have_no_interval_beyond_chance():
    found = measured(np.tile([[0, 1, 0.5, 1], [0, 1, 1, 0.5]], 3)[:, :7], LEVELS)
    assert reason_words(found["cohen_kappa"].reason) == "found 7 cases, expected 8 or more for an interval"
    assert (found["percent_agreement"].ci_low is None, found["bias"].ci_low is None) == (False, False)


def test_skewed_levels_have_no_interval_until_enough_cases_differ():
    # 40 outputs, 4 of them not all at the top
    judge, rater = np.ones(40), np.ones(40)
    judge[[0, 1]], rater[[1, 2, 3]] = 0.0, 0.0
    found = measured([judge, rater], LEVELS)
    assert (
        reason_words(found["cohen_kappa"].reason)
        == "94% of the ratings are equal, and 4 of 40 cases have another one: expected 25 or more for an interval"
    )
    assert found["gwet_ac1"].ci_low is not None


def test_two_raters_do_not_tell_how_raters_differ():
    found = measured(np.tile([[0, 1, 0.5, 1], [0, 1, 1, 0.5]], 3), LEVELS)["icc_2_1"]
    assert (found.value is None, found.ci_low, reason_words(found.reason)[:24]) == (
        False,
        None,
        "raters are a sample here",
    )


def test_the_interval_of_a_statistic_stays_within_what_it_can_be():
    own = np.linspace(0, 1, 2_000)
    others = own.copy()
    others[[3, 1_990]] = 1 - own[[3, 1_990]]
    found = measured([own, others])
    assert all(found[name].ci_high <= 1.0 for name in ("pearson", "alpha_interval", "icc_3_1"))
    assert found["rmse"].ci_low >= 0.0

"""Agreement where it can't be told, or its interval: null and the reason, never a number that is none."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import MOST_KINDS, measure_raters, measure_sides

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
    assert (found.value, found.reason) == (None, expected)


@pytest.mark.parametrize("name", ["icc_1_k", "icc_3_k"])
def test_equal_means_of_outputs_have_no_icc_of_means_and_say_why(opposite, name):
    assert (opposite[name].value, opposite[name].reason) == (
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
    assert "equal" in constant[name].reason


def test_resamples_of_equal_ratings_have_no_alpha():
    # one of 5,000 outputs differs: e^-1 of all resamples are without it
    others = np.full(5_000, 0.7)
    others[0] = 0.2
    found = measured([np.full(5_000, 0.7), others])["alpha_interval"]
    assert found.value == pytest.approx(0.0, abs=1e-3)
    assert found.reason == "more than 1 resample in 20 has none: too few or too equal ratings"


def test_perfect_agreement_has_no_width_and_says_so():
    found = measured([[0, 1, 0.5, 1, 0, 0.5], [0, 1, 0.5, 1, 0, 0.5]], LEVELS)["percent_agreement"]
    assert (found.value, found.ci_low) == (1.0, None)
    assert found.reason == "all resamples are equal, which tells no width"


def test_the_interval_of_a_sample_of_outputs_stays_within_what_a_statistic_can_be():
    # the two outputs that differ are among the sample: it agrees 4 times less than all, and the root of 4 is added
    own = np.linspace(0, 1, 4 * MOST_KINDS)
    drawn = np.random.default_rng(0).choice(own.size, MOST_KINDS, replace=False)[:2]
    others = own.copy()
    others[drawn] = 1 - own[drawn]
    found = measured([own, others])
    assert {found[name].ci_high for name in ("pearson", "icc_2_1", "alpha_interval")} == {1.0}
    assert found["rmse"].ci_low == 0.0

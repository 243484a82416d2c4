"""p and interval of a mean difference: one method, textbook values, and samples that show no losses."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.statistics.arrays import cluster_sums
from gradebook.rubrics.statistics.intervals import DIFFERENCES, measure_mean
from gradebook.rubrics.statistics.means import MeanDifference, count_moved, measure_difference, skewness_of
from gradebook.rubrics.statistics.significance import adjust_families

# Darwin (1876), heights of cross- and self-fertilised maize, eighths of an inch: in Fisher (1935), section 17.
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
steps = st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0]), min_size=2, max_size=40)


def difference_of(found, clusters=None, bounds=DIFFERENCES, **more) -> MeanDifference:
    own = measure_difference(
        measure_mean(found, clusters), count_moved(cluster_sums(found, clusters)[0]), bounds, **more
    )
    return MeanDifference(*(each.item() for each in (own.p, own.low, own.high)))


def test_without_bounds_it_is_the_t_of_the_books():
    # Fisher: t = 2.148 with 14 degrees of freedom, P = 0.0497; R, data `sleep`: p-value = 0.002833
    assert difference_of(DARWIN, bounds=None).p == pytest.approx(0.0497, abs=5e-5)
    gained = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    assert difference_of(gained, bounds=None).p == pytest.approx(0.002833, abs=5e-7)


SYMMETRIC = 0.15 + np.repeat([-0.5, 0.0, 0.5], 20)


def test_where_cases_moved_both_ways_alike_it_is_scipys_t():
    found = SYMMETRIC
    of_scipy = scipy.stats.ttest_1samp(found, 0.0)
    interval = of_scipy.confidence_interval(0.95)
    own = difference_of(found)
    assert (own.p, own.low, own.high) == pytest.approx((of_scipy.pvalue, interval.low, interval.high), abs=1e-9)


@given(steps, st.sampled_from([1, 3, 20]))
def test_p_is_below_alpha_exactly_if_the_interval_leaves_out_zero(found, chosen_from):
    own = difference_of(np.array(found), chosen_from=chosen_from)
    if abs(own.p - 0.05) > 1e-9:
        assert (own.p < 0.05) == (own.low > 0 or own.high < 0)


def test_equal_differences_are_no_proof_against_rare_losses():
    # all 10 rose by 0.25: 2 x (1 / 1.25)^10 = 0.215, and 1 - 0.025^(1/10) = 0.3085 of further cases may fall by 1
    own = difference_of(np.full(10, 0.25))
    assert (own.p, own.low) == pytest.approx((2 * 0.8**10, 0.25 - 0.308497 * 1.25), abs=1e-6)


def test_jitter_is_no_proof_against_rare_losses():
    # As many of 20 fell as rose, all by about 0.02: none of them shows whether 16.8% lose everything.
    found = np.tile([-0.02, 0.02], 10)
    own = difference_of(found)
    assert own.low == pytest.approx(-(1 - 0.025 ** (1 / 20)), abs=1e-9)
    assert own.low < scipy.stats.ttest_1samp(found, 0.0).confidence_interval(0.95).low


@pytest.mark.parametrize(("lost_count", "n"), [(1, 20), (3, 160), (7, 70)])
def test_losses_alone_have_the_interval_of_clopper_and_pearson(lost_count, n):
    exact = scipy.stats.binomtest(lost_count, n).proportion_ci(method="exact")
    found = -(np.arange(n) < lost_count).astype(float)
    assert difference_of(found).low == pytest.approx(-exact.high, abs=1e-9)


def test_gains_and_losses_apart_are_combined_by_mover():
    # Zou and Donner (2008): mean - sqrt(d1^2 + d2^2 + 2 r d1 d2), r of gains and losses that exclude one another
    found = np.repeat([-0.9, 0.0, 0.1], [3, 47, 50])
    gain, loss = 0.5, 0.03
    share = 0.81 * loss * (1 - loss) / (0.81 * loss * (1 - loss) + 0.01 * gain * (1 - gain))
    jumps = {"gain": 0.5 + 0.5 * (1 - share), "loss": 0.5 + 0.5 * share}
    beta = scipy.stats.beta
    less = 0.1 * (gain - beta.ppf(0.025, 50 + 1 - jumps["gain"], 50 + jumps["gain"]))
    fall = 0.9 * (beta.ppf(0.975, 3 + jumps["loss"], 97 + 1 - jumps["loss"]) - loss)
    r = np.sqrt(gain * loss / ((1 - gain) * (1 - loss)))
    expected = found.mean() - np.sqrt(less**2 + fall**2 + 2 * r * less * fall)
    own = difference_of(found)
    assert own.low == pytest.approx(expected, abs=1e-9)
    assert own.low < scipy.stats.ttest_1samp(found, 0.0).confidence_interval(0.95).low


def test_gains_and_losses_change_sides_with_the_sign():
    found = np.random.default_rng(2).choice([-0.9, 0.0, 0.1], 60, p=[0.05, 0.35, 0.6])
    own, other = difference_of(found), difference_of(-found)
    assert (own.low, own.high, own.p) == pytest.approx((-other.high, -other.low, other.p), abs=1e-12)


def test_cases_count_once_each():
    cases = np.repeat(np.arange(6), 5)
    assert difference_of(np.full(30, 0.5), cases).p == pytest.approx(2 * 1.5**-6)
    found = np.random.default_rng(3).choice([-1.0, 0.0, 0.2], 50, p=[0.05, 0.5, 0.45])
    alone, thrice = difference_of(found), difference_of(np.repeat(found, 3), np.repeat(np.arange(50), 3))
    assert (thrice.p, thrice.low, thrice.high) == pytest.approx((alone.p, alone.low, alone.high), abs=1e-9)


def test_a_chosen_side_has_its_p_multiplied_and_a_wider_interval():
    found = SYMMETRIC
    of_scipy = scipy.stats.ttest_1samp(found, 0.0)
    own, interval = difference_of(found, chosen_from=4), of_scipy.confidence_interval(1 - 0.05 / 4)
    assert own.p == pytest.approx(4 * of_scipy.pvalue)
    assert (own.low, own.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(("found", "p"), [([], None), ([0.0], None), ([0.0, 0.0], 1.0)])
def test_too_few_values_are_unknown_and_all_ties_speak_for_nothing(found, p):
    assert difference_of(found).p == pytest.approx(np.nan if p is None else p, nan_ok=True)


def test_skewness_is_scipys():
    found = np.random.default_rng(4).exponential(size=30)
    assert skewness_of(found) == pytest.approx(scipy.stats.skew(found), abs=1e-12)
    assert np.isnan(skewness_of(np.full(5, 0.25)))


def test_the_families_of_a_comparison_are_worked_out():
    # overall 0.03 and criteria 0.004, 0.5: the criteria's least is 2 x 0.004 = 0.008, doubled 0.016 by Holm
    overall, criteria = adjust_families([0.03], [0.004, 0.5])
    assert (overall.tolist(), criteria.tolist()) == ([0.03], pytest.approx([0.016, 0.5]))
    # nothing else moved: overall is doubled
    assert adjust_families([0.03], [0.4, 0.5])[0].tolist() == [0.06]
    assert adjust_families([0.03], [np.nan])[0].tolist() == [0.03]


def test_a_comparison_without_a_difference_is_beyond_chance_in_a_twentieth():
    draws = np.random.default_rng(5).random((4_000, 12))
    least = [min(np.concatenate(adjust_families(each[:2], each[2:]))) for each in draws]
    assert 0.04 < np.mean(np.array(least) <= 0.05) < 0.06

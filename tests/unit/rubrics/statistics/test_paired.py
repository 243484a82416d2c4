"""Paired tests against published examples and scipy, and where several pairs belong to one case."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.statistics.intervals import measure_mean
from gradebook.rubrics.statistics.significance import (
    adjust_for_many,
    adjust_step_down,
    count_shares,
    effect_of,
    mcnemar,
    wilcoxon,
)

# Darwin (1876), heights of cross- and self-fertilised maize, eighths of an inch: in Fisher (1935), section 17.
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
# Benjamini and Hochberg (1995), section 4: 15 p values of Neuhaus et al. (1992).
FIFTEEN = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240),
    *(0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
]
differences = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=12)


def test_the_signed_ranks_of_darwins_maize_are_those_of_the_books():
    # T = 24, n = 15: exact two-sided P = 0.0413 (Pratt and Gibbons 1981)
    assert wilcoxon(DARWIN) == pytest.approx(0.0413, abs=5e-5)


def test_ties_and_zeros_of_many_pairs_are_those_of_pratt_as_scipy_has_them():
    found = np.random.default_rng(2).choice([-0.5, 0.0, 0.5, 1.0], 300)
    expected = scipy.stats.wilcoxon(found, zero_method="pratt", correction=False).pvalue
    assert wilcoxon(found) == pytest.approx(expected, rel=1e-9)


@given(differences)
def test_few_pairs_are_counted_out_over_all_signs(found):
    values = np.array(found)
    ranks = np.where(values == 0, 0, scipy.stats.rankdata(np.abs(values)))
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(found))).reshape(len(found), -1)
    sums = np.abs(ranks @ signs)
    expected = (sums >= abs((ranks * np.sign(values)).sum()) - 1e-9).mean()
    assert wilcoxon(values) == pytest.approx(expected, abs=1e-12)


@given(differences)
def test_a_tests_p_is_the_same_with_the_sides_swapped(found):
    values = np.array(found)
    assert wilcoxon(values) == wilcoxon(-values)
    assert count_shares(values).better_count == count_shares(-values).worse_count


def test_mcnemar_is_exact_over_the_pairs_that_changed():
    # 5 gained, 15 lost of 20 changes: 2 x sum(C(20, k), k <= 5) / 2^20 = 2 x 21700 / 1048576
    passed_a = [True] * 15 + [False] * 5 + [True] * 30
    passed_b = [False] * 15 + [True] * 5 + [True] * 30
    assert mcnemar(passed_a, passed_b) == pytest.approx(2 * 21_700 / 2**20)


def test_mcnemar_of_cases_flips_whole_cases():
    # 4 cases of 3 outputs that all go the same way: 2 x (1/2)^4, not 2 x (1/2)^12
    passed = np.zeros(12)
    assert mcnemar(passed, passed + 1, np.repeat(np.arange(4), 3)) == pytest.approx(2 / 16)
    assert mcnemar(passed, passed + 1) == pytest.approx(2 / 2**12)


def test_repeating_every_pair_within_its_case_adds_no_certainty():
    found = np.array([0.5, 0.5, -0.25, 1.0, 0.75, -0.5, 0.1])
    cases = np.repeat(np.arange(7), 5)
    assert wilcoxon(np.repeat(found, 5), cases) == pytest.approx(wilcoxon(found), rel=0.1)  # ties share a mean rank


def test_few_cases_of_very_many_pairs_are_counted_out():
    # 4 cases that all rose: 2 / 2^4, however many pairs they have
    assert wilcoxon(np.full(4_000, 0.5), np.repeat(np.arange(4), 1_000)) == pytest.approx(2 / 16)


@pytest.mark.parametrize("count", [16, 17, 50])
def test_lists_and_sums_of_signs_are_one_and_the_same(count):
    found = np.random.default_rng(count).choice([-1.0, 0.5, 0.7, 1.0], count)
    signed = np.sign(found) * scipy.stats.rankdata(np.abs(found))
    if count == 16:
        signs = np.array(np.meshgrid(*[[-1, 1]] * count)).reshape(count, -1)
        assert wilcoxon(found) == pytest.approx((np.abs(np.abs(signed) @ signs) >= abs(signed.sum()) - 1e-9).mean())
    else:
        drawn = np.random.default_rng(1).choice([-1, 1], (100_000, count)) @ np.abs(signed)
        assert wilcoxon(found) == pytest.approx((np.abs(drawn) >= abs(signed.sum())).mean(), abs=0.006)


def test_without_pairs_nothing_is_known_and_ties_alone_are_a_p_of_one():
    assert np.isnan(wilcoxon([])) and np.isnan(mcnemar([], []))
    assert wilcoxon([0.0, 0.0]) == mcnemar([True, False], [True, False]) == 1.0


def test_the_fifteen_p_values_of_benjamini_and_hochberg_reject_four():
    # at q = 0.05 the four smallest; Bonferroni's method three
    adjusted = adjust_for_many(FIFTEEN)
    assert (adjusted <= 0.05).sum() == 4
    assert adjusted == pytest.approx(scipy.stats.false_discovery_control(FIFTEEN))


def test_an_unknown_p_counts_as_no_test():
    assert adjust_for_many([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)


def test_the_effect_size_is_corrected_for_few_pairs():
    # d_z = mean / sd = 1; Hedges' J(3) = gamma(1.5) / (gamma(1) x sqrt(1.5)) = 0.7236
    found = np.array([-1.0, 1.0, 1.0, 3.0])
    d = found.mean() / found.std(ddof=1)
    assert effect_of(measure_mean(found)) == pytest.approx(0.7236 * d, abs=1e-4)


def test_equal_differences_have_no_effect_size():
    assert np.isnan(effect_of(measure_mean([0.5, 0.5, 0.5])))


def test_shares_count_pairs_up_down_and_tied():
    shares = count_shares([0.5, -0.5, 0.0, 1e-12])
    assert (shares.better_count, shares.worse_count, shares.tied_count) == (1, 1, 2)
    assert shares.tied_rate.low == pytest.approx(0.15, abs=0.005)  # Wilson of 2 in 4: 0.150..0.850


def test_holm_multiplies_each_p_by_the_tests_that_are_left():
    # 15 x 0.0001, 14 x 0.0004, 13 x 0.0019, 12 x 0.0095: three are at 0.05, of which BH has four
    assert adjust_step_down(FIFTEEN)[:4] == pytest.approx([0.0015, 0.0056, 0.0247, 0.114])
    assert adjust_step_down([0.04, np.nan, 0.03]) == pytest.approx([0.06, np.nan, 0.06], nan_ok=True)

"""All figures of a comparison together: they agree, and they say where they do not."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.stats import binomtest

from gradebook.rubrics.statistics.comparison import describe_caution, describe_conflict, measure_pairs, measure_passes

OWN_CASES = np.arange(40)
RNG = np.random.default_rng(5)
OF_A = RNG.choice([0.0, 0.5, 1.0], 40)
OF_B = RNG.choice([0.0, 0.5, 1.0], 40, p=[0.1, 0.3, 0.6])


def test_the_figures_are_those_of_the_differences():
    found = measure_pairs(OF_A, OF_B, OWN_CASES, resample_count=2_000)
    assert found.mean_diff == pytest.approx(found.mean_b - found.mean_a)
    of_t = scipy.stats.ttest_1samp(OF_B - OF_A, 0.0).pvalue
    assert of_t < found.p < 3 * of_t  # a little skewed
    assert found.diff_low == pytest.approx(found.boot_low, abs=0.03)


def test_copies_of_the_pairs_within_their_cases_tell_no_more():
    once = measure_pairs(OF_A, OF_B, OWN_CASES)
    copied = measure_pairs(np.repeat(OF_A, 3), np.repeat(OF_B, 3), np.repeat(OWN_CASES, 3))
    assert (copied.n, copied.case_count) == (120, 40)
    assert (copied.p, copied.diff_low) == (pytest.approx(once.p), pytest.approx(once.diff_low))
    assert copied.detectable_diff == pytest.approx(once.detectable_diff)


def test_no_pair_tells_nothing():
    found = measure_pairs([], [], np.empty(0, dtype=np.int64), resample_count=10)
    assert {found.mean_diff, found.p, found.p_wilcoxon, found.diff_low, found.boot_low, found.better_rate} == {None}


def test_one_pair_has_a_difference_and_no_interval():
    found = measure_pairs([0.0], [1.0], np.zeros(1, dtype=np.int64))
    assert (found.mean_diff, found.diff_low, found.p, found.detectable_diff) == (1.0, None, None, None)


def test_without_resamples_there_is_no_bootstrap():
    assert measure_pairs(OF_A, OF_B, OWN_CASES).boot_low is None


def test_a_mean_that_rises_while_most_pairs_fall_is_said():
    # 3 pairs gain 1, 10 lose 0.1: the mean rises by 2 / 13
    gains = np.array([1.0] * 3 + [-0.1] * 10)
    words = describe_conflict(measure_pairs(np.full(13, 0.5), 0.5 + gains, np.arange(13)))
    assert words is not None
    assert words.startswith("the mean rose by 0.154")
    assert words.endswith("but 3 are better and 10 worse: the gains are fewer but larger; neither is more than chance")


def test_a_conflict_that_is_more_than_chance_is_not_called_chance():
    found = replace(measure_pairs(OF_B, OF_A, OWN_CASES), mean_diff=0.2, p=0.04, better_count=3, worse_count=10)
    assert str(describe_conflict(found)).endswith("the gains are fewer but larger")


def test_a_mean_and_wins_of_one_direction_need_no_words():
    assert describe_conflict(measure_pairs(OF_A, OF_B, OWN_CASES)) is None


def test_tests_that_disagree_are_said():
    found = replace(measure_pairs(OF_A, OF_B, OWN_CASES), p=0.04, p_wilcoxon=0.2)
    assert "the mean alone tells A from B, the ranks do not" in str(describe_conflict(found))


def test_few_pairs_that_differ_are_a_caution():
    of_b = np.where(np.arange(40) < 3, 0.0, 1.0)
    words = describe_caution(measure_pairs(np.ones(40), of_b, OWN_CASES))
    assert words == "none of 40 pairs rose: the interval and p allow for rare gains that so few can't show"


def test_few_cases_that_moved_are_a_caution_however_many_pairs_they_have():
    # 20 cases of 5 pairs; all pairs of 4 cases fell, and in one case as many rose as fell
    fell = np.repeat(np.isin(np.arange(20), [1, 5, 9, 12]), 5).astype(float)
    fell[:2] = [1.0, -1.0]
    words = describe_caution(measure_pairs(np.ones(100), 1.0 - fell, np.repeat(np.arange(20), 5)))
    assert words == "none of 20 cases rose: the interval and p allow for rare gains that so few can't show"


def test_differences_that_hardly_vary_are_a_caution():
    of_b = 0.5 + np.tile([-0.02, 0.03], 20)
    words = describe_caution(measure_pairs(np.full(40, 0.5), of_b, OWN_CASES))
    assert words == "40 pairs are too few to show rare heavy losses: the interval and p allow for them"


def test_skewed_differences_are_a_caution():
    # 25 x 2.67^2 = 178 cases would be enough for t
    of_b = np.where(np.arange(80) < 8, 0.0, 0.6)
    found = measure_pairs(np.full(80, 0.5), of_b, np.arange(80))
    words = "the differences are too skewed (-2.7) for t on 80 pairs: the interval and p allow for it"
    assert describe_caution(found) == words


def test_differences_that_are_all_one_tell_no_detectable_one():
    found = measure_pairs(np.full(12, 0.3), np.full(12, 0.1), np.arange(12))
    assert (found.detectable_diff, found.p) == (None, pytest.approx(2 * 1.2**-12))  # the share beyond 0.2 / 1.2


def test_few_cases_of_many_pairs_are_a_caution():
    of_b = np.random.default_rng(1).choice([0.0, 0.5, 1.0], 40)
    assert "only 20 cases" in str(describe_caution(measure_pairs(OF_A, of_b, OWN_CASES // 2)))
    assert describe_caution(measure_pairs(OF_A, OF_B, OWN_CASES)) is None


def test_passes_are_counted_both_ways():
    found = measure_passes([1, 1, 0, 0, 1], [1, 0, 1, 1, 1], np.arange(5))
    assert (found.gained_count, found.lost_count, found.pass_rate_a, found.pass_rate_b) == (2, 1, 0.6, 0.8)
    assert found.p_mcnemar == 1.0


def test_the_interval_of_passes_is_that_of_differences():
    # 1 of 160 lost: Clopper and Pearson, 0.0001582 to 0.034308
    found = measure_passes(np.ones(160), np.arange(160) > 0, np.arange(160))
    assert found.pass_diff_low == pytest.approx(-binomtest(1, 160).proportion_ci(method="exact").high, abs=1e-9)

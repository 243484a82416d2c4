"""Which of two sides is steadier."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.distributions import measure_spread
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.statistics.strata import count_cases_once

RNG = np.random.default_rng(3)
SHARED = RNG.normal(0.5, 0.05, 40)
WIDE, NARROW = SHARED + RNG.normal(0, 0.2, 40), SHARED + RNG.normal(0, 0.05, 40)
CASES = np.arange(40)


def test_the_side_with_the_smaller_standard_deviation_is_steadier():
    found = measure_spread(WIDE, NARROW, CASES)
    assert (found.sd_a, found.sd_b) == (pytest.approx(WIDE.std(ddof=1)), pytest.approx(NARROW.std(ddof=1)))
    assert found.sd_ratio == pytest.approx(found.sd_b / found.sd_a)
    assert found.outcome is Chance.BELOW
    assert measure_spread(NARROW, WIDE, CASES).outcome is Chance.ABOVE
    assert measure_spread(WIDE, WIDE[::-1], CASES).outcome is Chance.WITHIN


def test_the_interval_is_that_of_leaving_out_one_case_after_the_other():
    of_a, of_b, cases = WIDE[:20], NARROW[:20], np.repeat(np.arange(10), 2)
    left = [np.log(of_b[cases != k].std(ddof=1) / of_a[cases != k].std(ddof=1)) for k in range(10)]
    error = np.sqrt(0.9 * np.square(np.array(left) - np.mean(left)).sum())  # 9 / 10
    found = measure_spread(of_a, of_b, cases)
    assert found.sd_ratio_low == pytest.approx(found.sd_ratio * np.exp(-2.262157 * error))  # t of 9 df


def test_copies_of_the_pairs_within_their_cases_tell_no_more():
    once = measure_spread(WIDE, NARROW, CASES)
    copied = measure_spread(np.repeat(WIDE, 3), np.repeat(NARROW, 3), np.repeat(CASES, 3))
    assert copied.sd_ratio_low == pytest.approx(once.sd_ratio_low, rel=0.01)


def test_a_case_with_more_outputs_than_the_others_counts_once():
    once = measure_spread(WIDE, NARROW, CASES)
    places = np.append(CASES, [7] * 500)  # 500 more copies of one case
    copied = measure_spread(WIDE[places], NARROW[places], places, count_cases_once(places))
    assert (copied.sd_ratio, copied.sd_ratio_low) == pytest.approx((once.sd_ratio, once.sd_ratio_low))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_few_cases_have_no_ratio(count):
    found = measure_spread(WIDE[:count], NARROW[:count], CASES[:count])
    assert (found.sd_ratio, found.sd_ratio_low, found.outcome) == (None, None, Chance.UNKNOWN)


def test_equal_scores_or_one_other_score_have_no_ratio():
    equal = np.ones(40)
    assert measure_spread(equal, NARROW, CASES).sd_ratio is None
    equal[0] = 0.0  # without this case, no variance is left
    assert measure_spread(equal, NARROW, CASES).sd_ratio is None

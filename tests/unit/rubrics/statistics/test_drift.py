"""Evidence that a judge changed."""

import numpy as np
import pytest

from bench.drift import ALPHA, NIGHTS, World, follow
from gradebook.rubrics.statistics.judge_quality import BETS, DriftEvidence, contrasts


def test_a_contrast_is_the_new_score_minus_the_mean_of_all_scores_of_its_anchor():
    # 0 after 1, 1: 0 - 2/3; 1 after nothing; no score
    found = contrasts(np.array([0.0, 1.0, np.nan]), np.array([2.0, 0.0, 1.0]), np.array([2, 0, 1]))
    assert found == pytest.approx([-2 / 3, 0, 0])


def test_exchanged_replies_average_to_nothing():
    # of the three replies 0, 0, 1, each may be the last one
    found = [contrasts(np.array([last]), np.array([1 - last]), np.array([2]))[0] for last in (0.0, 0.0, 1.0)]
    assert sum(found) == pytest.approx(0)


def test_the_evidence_of_two_nights_is_the_wealth_of_all_gamblers():
    evidence = DriftEvidence().after(np.array([-0.5])).after(np.array([-0.5]))
    gain = 1 - 0.5 * BETS
    # half started before; of the others a half before night 1, a sixth before night 2, and a third has not started
    wealth = 0.5 * gain**2 + 0.5 * (gain**2 / 2 + gain / 6 + 1 / 3)
    assert evidence.e_value == pytest.approx(wealth.mean())
    assert DriftEvidence().e_value == 1


def test_false_alarms_stay_below_alpha_and_a_fall_of_a_tenth_is_seen_in_ten_nights():
    rng = np.random.default_rng(7)
    alarms, fired = follow(rng, 400, World(noise=0.05))
    assert (alarms <= NIGHTS).mean() <= ALPHA
    assert fired.mean() > 0.5  # what a nightly test of the same replies does
    seen, _ = follow(rng, 100, World(noise=0.05, shift=0.1))
    assert np.quantile(seen, 0.9) <= 10

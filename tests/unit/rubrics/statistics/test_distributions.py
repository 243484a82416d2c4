"""The CDFs of two samples, and which of them lies nowhere behind."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.distributions import (
    MOST_SCORES,
    Dominance,
    pair_distributions,
    share_at_or_below,
    thin_distributions,
)


def test_shares_count_what_is_at_or_below_each_score():
    pair = pair_distributions([0.0, 0.5, 1.0, 1.0], [0.5, 1.0])
    assert pair.scores.tolist() == [0.0, 0.5, 1.0]
    assert (pair.share_a.tolist(), pair.share_b.tolist()) == ([0.25, 0.5, 1.0], [0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("of_a", "of_b", "expected"),
    [
        ([0.0, 1.0], [0.5, 1.0], Dominance.b),
        ([0.5, 1.0], [0.0, 1.0], Dominance.a),
        ([0.0, 1.0], [0.5, 0.5], Dominance.neither),
        ([0.0, 1.0], [1.0, 0.0], Dominance.equal),
        ([], [1.0], Dominance.unknown),
    ],
)
def test_who_has_nowhere_more_at_or_below_dominates(of_a, of_b, expected):
    pair = pair_distributions(of_a, of_b)
    assert pair.dominance is expected


def test_scores_that_differ_by_a_float_sum_are_one():
    assert pair_distributions([0.1 + 0.2], [0.3]).dominance is Dominance.equal


def test_the_share_at_any_score_is_known():
    found = share_at_or_below([0.1 + 0.2, 0.6, 0.9], [0.29, 0.3, 1.0])
    assert found == pytest.approx([0.0, 1 / 3, 1.0])


def test_no_score_has_no_share():
    assert np.isnan(share_at_or_below([], [0.5])).all()


def test_a_long_distribution_is_shown_at_three_digits():
    pair = pair_distributions(np.arange(5_000) / 5_000, np.arange(5_000) / 5_000)
    shown = thin_distributions(pair)
    assert shown.scores.size <= MOST_SCORES + 1
    assert shown.share_a[-1] == 1.0

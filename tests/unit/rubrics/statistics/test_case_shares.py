"""Shares of strata in two sets of cases."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.suite import (
    cluster_vectors,
    compare_shares,
    difference_of_rates,
    fisher_p,
)


@pytest.mark.parametrize(
    ("counts", "p"),
    [((8, 10, 1, 6), 0.034965035), ((0, 20, 20, 100), 0.023611096), ((5, 5, 5, 5), 1.0), ((0, 1, 0, 1), 1.0)],
)
def test_the_exact_test_is_fishers(counts, p):  # of scipy.stats.fisher_exact
    assert fisher_p(*counts) == pytest.approx(p, rel=1e-6)


def test_the_interval_is_newcombes():  # his example (a), method 10: 56/70 - 48/80 = 0.20, 0.0524 to 0.3339
    found = difference_of_rates(56, 70, 48, 80)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_equal_sides_have_no_distance_and_missing_strata_come_first():
    rows, distances = compare_shares({"a": ("xxyy", "xxyy"), "b": ("xxxx", "xxyz")})
    assert [(row.column, row.stratum) for row in rows[:2]] == [("b", "y"), ("b", "z")]
    assert [each.distance for each in distances] == [0.0, 0.5]
    assert distances[0].p == 1.0
    assert 0 < distances[0].by_chance < 0.5


def test_false_alarms_of_a_column_are_as_rare_as_they_say():
    rng = np.random.default_rng(4)
    ps = [
        compare_shares({"a": (rng.choice(list("uvwxyz"), 40).tolist(), rng.choice(list("uvwxyz"), 200).tolist())})[1][
            0
        ].p
        for _ in range(100)
    ]
    assert np.mean(np.array(ps) <= 0.05) <= 0.12


def test_clusters_are_those_of_the_directions():
    vectors = np.repeat(np.eye(3), [5, 3, 1], axis=0)
    codes, examples = cluster_vectors(vectors, 3)
    assert len(set(codes[:5])) == len(set(codes[5:8])) == 1
    assert sorted(codes[examples]) == [0, 1, 2]
    codes, examples = cluster_vectors(np.ones((4, 1)), 3)  # equal vectors make one cluster
    assert (codes.tolist(), len(examples)) == ([0] * 4, 1)

"""Levels of a series of looks."""

from statistics import NormalDist

import pytest

from gradebook.rubrics.statistics.series import MOST_FACTOR, Series, obf_spent, read_series


def test_spending_begins_with_the_published_bound():
    # Lan and DeMets, two-sided 0.05, five looks: 4.8769 at the first; all of it after the last
    assert -NormalDist().inv_cdf(obf_spent(0.05, 0.2) / 2) == pytest.approx(4.8769, abs=5e-5)
    assert [round(obf_spent(0.05, share), 4) for share in (0, 0.4, 0.6, 0.8, 1)] == [0, 0.0008, 0.0076, 0.0244, 0.05]


@pytest.mark.parametrize("method", ["lord", "obf", "bonferroni"])
def test_the_levels_of_a_series_without_a_rejection_add_up_to_alpha_at_most(method):
    levels = [Series(0.05, method, 10).level(look) for look in range(1, 2_000)]
    assert sum(levels) <= 0.05 + 1e-12
    assert min(levels[:10]) > 0
    assert (levels[10] == 0) == (method != "lord")  # the planned looks are over


def test_a_rejection_earns_level_for_later_looks_only():
    series = Series(0.05, "lord")
    assert series.level(5, [3]) == pytest.approx(series.level(5) + 0.025 * 2**-1.6 / 2.2857656)
    assert series.level(3, [3]) == series.level(3)


def test_p_times_the_factor_is_below_a_twentieth_exactly_if_p_is_below_the_level():
    series = Series(0.05, "bonferroni", 10)
    assert series.factor(1) == pytest.approx(10)
    assert series.factor(11) == MOST_FACTOR


def test_a_series_of_a_command_line():
    assert read_series("method=obf, alpha=0.1,looks=20") == Series(0.1, "obf", 20)
    for wrong in ("method=pocock", "alpha=2", "looks=0", "month", "alpha=0.05;looks=3", "looks=1.5"):
        with pytest.raises(ValueError, match="."):
            read_series(wrong)

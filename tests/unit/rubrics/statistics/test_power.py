"""Power against the tables of Cohen and against simulation."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import gammaln, ndtr, ndtri, stdtrit

from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.power import (
    Margin,
    cases_to_show,
    deciding_effect,
    deciding_n,
    deciding_power,
    detectable_effect,
    minimal_effect,
    needed_n,
    power_of,
    shown_margin,
    simulate_power,
)
from tests.support.law_over import law_over


@pytest.mark.parametrize(("effect", "n"), [(0.2, 394), (0.5, 64), (0.8, 26)])
def test_two_groups_need_the_n_of_cohens_table(effect, n):
    # Cohen (1992), A power primer, table 2: 393, 64, 26 at alpha 0.05 and power 0.80; exact for 0.2 is 394 (G*Power)
    assert needed_n(effect, 1.0, is_paired=False) == n


@pytest.mark.parametrize(("effect", "n"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_pairs_need_the_n_of_g_power(effect, n):
    # Faul et al. (2007), G*Power 3, means: difference from constant, two-sided, alpha 0.05, power 0.80
    assert needed_n(effect, 1.0) == n


def test_what_n_can_find_is_what_needs_n():
    effect = detectable_effect(0.3, 200)
    assert power_of(effect, 0.3, 200) == pytest.approx(0.8, abs=1e-9)
    assert needed_n(effect * 1.0001, 0.3) == 200


def test_the_power_is_how_often_a_simulated_difference_is_found():
    drawn = np.random.default_rng(1).normal(0.4, 1.0, (20_000, 30))
    found = (scipy.stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05).mean()
    assert power_of(0.4, 1.0, 30) == pytest.approx(found, abs=0.01)


def plain_power(noncentrality: float, df: float, alpha: float) -> float:
    """P(|T| > critical) of T = (Z + noncentrality) / s, s^2 = chi^2 / df: summed over the density of log s."""
    critical = scipy.stats.t.ppf(1 - alpha / 2, df)
    u = np.linspace(-14, 4, 100_001)
    s = np.exp(u)
    density = np.exp(np.log(2) + df / 2 * np.log(df / 2) - gammaln(df / 2) + df * u - df * s * s / 2)
    tails = ndtr(noncentrality - critical * s) + ndtr(-critical * s - noncentrality)
    return float(np.trapezoid(tails * density, u))


@law_over("alpha", [0.05, 0.001])
@law_over("n", [2, 3, 6, 30])
@law_over("effect", [0.5, 5.0, 20.0, 300.0])
def test_the_power_is_that_of_a_plain_integration(alpha, n, effect):
    expected = plain_power(effect * n**0.5, n - 1, alpha)
    assert power_of(effect, 1.0, n, alpha=alpha) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("effect", "n"), [(0.3, 50), (1.0, 12), (2.0, 4)])
def test_the_power_is_that_of_the_noncentral_t_of_scipy(effect, n):
    critical, noncentrality = scipy.stats.t.ppf(0.975, n - 1), effect * n**0.5
    expected = scipy.stats.nct.sf(critical, n - 1, noncentrality) + scipy.stats.nct.cdf(-critical, n - 1, noncentrality)
    assert power_of(effect, 1.0, n) == pytest.approx(expected, abs=1e-9)


def test_two_units_find_what_a_plain_integration_says():
    # one degree of freedom, t at 0.975 = 12.7: 0.8 at a noncentrality of 16.3
    assert plain_power(16.335, 1.0, 0.05) == pytest.approx(0.8, abs=1e-4)
    assert minimal_effect(1.0, 1.0) == pytest.approx(16.335, abs=5e-3)


def test_a_high_power_at_a_low_alpha_of_two_pairs_is_found():
    effect = detectable_effect(1.0, 2, power=0.999, alpha=0.001)
    assert plain_power(effect * 2**0.5, 1.0, 0.001) == pytest.approx(0.999, abs=1e-5)


def test_the_power_of_no_difference_is_alpha():
    assert power_of(0.0, 1.0, 20, alpha=0.1) == pytest.approx(0.1)


def test_a_direction_makes_no_difference():
    assert power_of(-0.3, 1.0, 50) == power_of(0.3, 1.0, 50)


@pytest.mark.parametrize(("sd", "n"), [(1.0, 1), (0.0, 10), (float("nan"), 10)])
def test_too_few_or_no_spread_have_no_power(sd, n):
    assert np.isnan(power_of(0.5, sd, n))
    assert np.isnan(detectable_effect(sd, n))


def test_a_huge_n_is_answered():
    assert power_of(0.003, 1.0, 3_000_000) == pytest.approx(0.9993, abs=1e-3)
    assert needed_n(1e-9, 1.0) is None


def test_an_unknown_standard_error_finds_nothing_known():
    assert np.isnan(minimal_effect(float("nan"), 5.0))


@pytest.mark.parametrize("is_both", [False, True])
def test_the_chance_to_pass_a_margin_is_how_often_it_passes(is_both):
    rng = np.random.default_rng(5)
    n, sd, effect, margin = 40, 0.3, -0.02, 0.15
    found = rng.normal(effect, sd, (20_000, n))
    reach = float(stdtrit(n - 1, 0.975)) * found.std(axis=1, ddof=1) / np.sqrt(n)
    passed = found.mean(axis=1) - reach > -margin
    if is_both:
        passed &= found.mean(axis=1) + reach < margin
    assert Margin(margin, is_both).power_of(effect, sd, n) == pytest.approx(passed.mean(), abs=0.01)


def test_a_difference_beyond_the_margin_never_passes_with_any_n():
    assert Margin(0.02).needed_n(-0.02, 0.3) is None
    assert Margin(0.02, is_both=True).needed_n(0.02, 0.3) is None


def test_an_equal_model_passes_the_shown_margin_in_four_comparisons_of_five():
    # scores of 0 or 1, of which a fifth changes either way: the gate as comparisons measure it, on other draws
    rng, n = np.random.default_rng(7), 60
    past = rng.choice((-1.0, 0.0, 0.0, 0.0, 0.0), 500)
    margin = shown_margin(past, n, np.random.default_rng(1))
    passed = []
    for _ in range(400):
        change = rng.choice((-1.0, 1.0) + (0.0,) * 8, n)
        figures = measure_pairs(np.zeros(n), change, np.arange(n))
        passed.append(figures.diff_low > -margin)
    assert np.mean(passed) == pytest.approx(0.8, abs=0.07)
    assert margin > 2.8 * np.sqrt(0.2 / n)  # t believes that fewer cases show as much


def test_with_many_even_differences_the_shown_margin_and_its_cases_are_those_of_t():
    past = np.random.default_rng(3).normal(0.0, 0.1, 2_000)
    assert shown_margin(past, 1_500, np.random.default_rng(1)) == pytest.approx(2.8 * 0.1 / np.sqrt(1_500), rel=0.08)
    assert cases_to_show(past, 0.005, np.random.default_rng(1)) == pytest.approx(
        Margin(0.005).needed_n(0.0, 0.1), rel=0.08
    )
    assert cases_to_show(past[:1], 0.02, np.random.default_rng(1)) is None
    assert np.isnan(shown_margin(past, 1, np.random.default_rng(1)))


def test_power_of_the_interval_that_decides_is_that_of_t_where_t_is_the_wider_one():
    # 285 pairs with sd 0.3: the share that they can't show is 1 - 0.025^(1/285) = 1.3%, less than the margin of t.
    assert deciding_power(0.05, 0.3, 285) == pytest.approx(power_of(0.05, 0.3, 285), abs=1e-3)
    # 50 with sd 0.05: only a mean above share / (1 - share) = 0.0766 is beyond chance.
    least = 0.025 ** (-1 / 50) - 1
    assert deciding_power(0.05, 0.05, 50) == pytest.approx(ndtr((0.05 - least) / (0.05 / 50**0.5)), abs=1e-9)
    assert deciding_effect(0.05, 50) == pytest.approx(least + ndtri(0.8) * 0.05 / 50**0.5, abs=1e-9)
    assert deciding_power(0.05, 0.05, deciding_n(0.05, 0.05)) >= 0.8 > deciding_power(0.05, 0.05, 83)
    assert deciding_n(0.0, 0.3) is None


def test_simulated_power_finds_what_further_comparisons_find():
    rng = np.random.default_rng(5)
    found = simulate_power(rng.normal(0.0, 0.2, 100), 0.02, rng, test_count=2)
    assert found.detectable == pytest.approx(deciding_effect(0.2, 100, alpha=0.025), abs=0.01)
    assert found.release_power == pytest.approx(deciding_power(0.0, 0.2, 100, margin=0.02), abs=0.06)
    assert simulate_power(np.zeros(20), 0.02, rng).release_power == 0.0

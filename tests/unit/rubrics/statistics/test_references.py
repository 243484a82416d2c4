"""Figures recomputed by other packages, to 1e-9; skipped without them (dependency group `references`)."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import measure_raters, measure_sides
from gradebook.rubrics.statistics.calibration import Rated, corrected_mean, judge_weight
from gradebook.rubrics.statistics.intervals import measure_mean, wilson
from gradebook.rubrics.statistics.means import score_interval
from gradebook.rubrics.statistics.power import detectable_effect, power_of
from gradebook.rubrics.statistics.significance import adjust_for_many, adjust_step_down, mcnemar
from tests.unit.rubrics.statistics.test_agreement import FIVE, KRIPPENDORFF, SHROUT, values

pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that are not ours
RNG = np.random.default_rng(20)
OWN = RNG.integers(1, 6, 60).astype(float)
OTHER = np.clip(OWN + RNG.integers(-1, 2, 60), 1, 5)
P_VALUES = RNG.random(12) ** 3


def package(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install --group references")


def close(expected):
    return pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("ratings", [KRIPPENDORFF, np.stack([OWN, OTHER])], ids=["krippendorff", "drawn"])
def test_alpha_is_that_of_krippendorff(ratings, metric):
    expected = package("krippendorff").alpha(ratings, level_of_measurement=metric)
    assert values(measure_raters(ratings, ratings, FIVE))[f"alpha_{metric}"] == close(expected)


@pytest.mark.parametrize("ratings", [KRIPPENDORFF, np.stack([OWN, OTHER])], ids=["krippendorff", "drawn"])
@pytest.mark.parametrize(
    ("statistic", "method"),
    [("fleiss_kappa", "fleiss"), ("gwet_ac1", "gwet"), ("conger_kappa", "conger"), ("brennan_prediger", "bp")],
)
def test_chance_corrected_figures_are_those_of_irrcac(ratings, statistic, method):
    irr, pandas = package("irrCAC.raw"), package("pandas")
    table = irr.CAC(pandas.DataFrame(ratings.T), categories=FIVE.tolist(), digits=15)
    expected = getattr(table, method)()["est"]["coefficient_value"]
    assert values(measure_raters(ratings, ratings, FIVE))[statistic] == close(expected)


@pytest.mark.parametrize(("statistic", "weights"), [("", None), ("_linear", "linear"), ("_quadratic", "quadratic")])
def test_cohens_kappas_are_those_of_statsmodels(statistic, weights):
    kappas = package("statsmodels.stats.inter_rater")
    table = np.zeros((5, 5))
    np.add.at(table, (OWN.astype(int) - 1, OTHER.astype(int) - 1), 1)
    expected = kappas.cohens_kappa(table, wt=weights).kappa
    pair = np.stack([OWN, OTHER])
    assert values(measure_sides(pair, pair, FIVE))[f"cohen_kappa{statistic}"] == close(expected)


def test_intraclass_correlations_are_those_of_pingouin():
    pingouin, pandas = package("pingouin"), package("pandas")
    raters, targets = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    table = pandas.DataFrame({"rater": raters.ravel(), "target": targets.ravel(), "score": SHROUT.ravel()})
    rows = pingouin.intraclass_corr(table, targets="target", raters="rater", ratings="score")["ICC"]
    names = ("icc_1_1", "icc_2_1", "icc_3_1", "icc_1_k", "icc_2_k", "icc_3_k")
    found = values(measure_raters(SHROUT, SHROUT, np.array([])))
    assert [found[name] for name in names] == close(rows.to_list())


def test_adjusted_p_are_those_of_statsmodels():
    multiple = package("statsmodels.stats.multitest").multipletests
    assert adjust_for_many(P_VALUES) == close(multiple(P_VALUES, method="fdr_bh")[1])
    assert adjust_step_down(P_VALUES) == close(multiple(P_VALUES, method="holm")[1])


def test_rates_and_mcnemars_test_are_those_of_statsmodels():
    proportions, tables = package("statsmodels.stats.proportion"), package("statsmodels.stats.contingency_tables")
    found = wilson(17, 20)
    assert (found.low, found.high) == close(proportions.proportion_confint(17, 20, method="wilson"))
    exact = score_interval(np.repeat([1.0, 0.0], [17, 3]))
    assert (exact.low, exact.high) == close(proportions.proportion_confint(17, 20, method="beta"))
    a, b = np.repeat([1, 1, 0, 0], [9, 7, 2, 5]), np.repeat([1, 0, 1, 0], [9, 7, 2, 5])
    assert mcnemar(a, b) == close(tables.mcnemar([[9, 7], [2, 5]], exact=True).pvalue)


def test_power_is_that_of_statsmodels():
    power = package("statsmodels.stats.power")
    assert power_of(0.1, 0.3, 50) == close(power.TTestPower().power(0.1 / 0.3, 50, 0.05))
    assert power_of(0.1, 0.3, 50, is_paired=False) == close(power.TTestIndPower().power(0.1 / 0.3, 50, 0.05))
    effect = detectable_effect(0.3, 50) / 0.3
    assert power.TTestPower().power(effect, 50, 0.05) == close(0.8)


def test_the_clustered_standard_error_is_that_of_statsmodels():
    # CR2 of a mean over equal clusters is CR1 without its factor for parameters, G / (G - 1)
    linear = package("statsmodels.api")
    cases = np.repeat(np.arange(12), 5)
    fit = linear.OLS(OWN, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": cases, "use_correction": False})
    assert measure_mean(OWN, cases).standard_error == close(float(fit.bse[0]) * (12 / 11) ** 0.5)


def test_the_corrected_mean_and_the_judges_weight_are_those_of_ppi_python():
    # `ppi_py` fits one weight on all ratings. With the weight given, as without cross-fitting, the means are the same.
    ppi = package("ppi_py")
    ratings, judged = (OWN - 1) / 4, (OTHER - 1) / 4
    rated = Rated(ratings[:30], judged[:30], judged[30:])
    weight = judge_weight(rated)
    expected = ppi.ppi_mean_pointestimate(ratings[:30], judged[:30], judged[30:], lam=weight)
    assert corrected_mean(rated, weights=np.full(30, weight)).value == close(float(np.ravel(expected)[0]))

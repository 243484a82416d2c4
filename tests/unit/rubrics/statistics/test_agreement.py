"""Agreement: published worked examples, scipy's figures, and what can't be told."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gradebook.rubrics.statistics.agreement import (
    MOST_LEVELS,
    STATISTICS,
    confusion_matrix,
    measure_raters,
    measure_sides,
)
from gradebook.rubrics.statistics.agreement_coefficients import cohen_kappa, distance_weights, fleiss_kappa
from gradebook.rubrics.text.reasons import reason_words

NONE = np.nan
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C; Gwet has the same as cac.raw4raters.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
)
FIVE = np.arange(1.0, 6.0)
# Shrout and Fleiss (1979), table 2: four judges, six targets.
SHROUT = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]], dtype=float)
# Fleiss (1971), table 1: 30 patients, 6 psychiatrists, 5 diagnoses.
FLEISS = """00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"""


def values(found):
    return {measure.statistic: measure.value for measure in found.measures}


def of_two(own, others, scale=()):
    matrix = np.array([own, others], dtype=float)
    return measure_sides(matrix, matrix, np.array(scale, dtype=float))


@pytest.fixture(scope="module")
def krippendorff():
    return measure_raters(KRIPPENDORFF, KRIPPENDORFF, FIVE)


# -------- published examples
@pytest.mark.parametrize(("metric", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_is_krippendorffs_by_each_metric(krippendorff, metric, alpha):
    assert values(krippendorff)[f"alpha_{metric}"] == pytest.approx(alpha, abs=5e-4)


def test_chance_corrected_figures_of_missing_ratings_are_those_of_gwets_handbook(krippendorff):
    # Gwet (2014), chapter 2, by his package irrCAC; Brennan and Prediger's is (9/11 - 1/5) / (4/5)
    found = values(krippendorff)
    assert (found["gwet_ac1"], found["fleiss_kappa"]) == pytest.approx((0.77544, 0.76117), abs=5e-6)
    assert found["brennan_prediger"] == pytest.approx((9 / 11 - 0.2) / 0.8, abs=1e-12)


def test_congers_kappa_of_missing_ratings_is_that_of_gwets_package():
    # irrCAC of cac.raw4raters: 0.76282. There the third rater gave the only rating of the last unit, not the second.
    matrix = KRIPPENDORFF.copy()
    matrix[[1, 2], 11] = NONE, 3
    assert values(measure_raters(matrix, matrix, FIVE))["conger_kappa"] == pytest.approx(0.76282, abs=5e-6)


def test_congers_kappa_of_two_raters_is_cohens(drawn):
    among = values(measure_raters(matrix := np.stack(drawn), matrix, np.array([])))
    assert among["conger_kappa"] == pytest.approx(among["cohen_kappa"], abs=1e-12)


def test_the_percent_agreement_of_missing_ratings_is_gwets(krippendorff):
    # irrCAC: 0.8181818, over the 11 units of two ratings and more
    assert values(krippendorff)["percent_agreement"] == pytest.approx(9 / 11)


def test_intraclass_correlations_are_those_of_shrout_and_fleiss():
    found = values(measure_raters(SHROUT, SHROUT, np.array([])))
    names = ("icc_1_1", "icc_2_1", "icc_3_1", "icc_1_k", "icc_2_k", "icc_3_k")
    assert [round(found[name], 2) for name in names] == [0.17, 0.29, 0.71, 0.44, 0.62, 0.91]


def test_fleiss_kappa_is_that_of_the_diagnoses_of_1971():
    counts = np.array([[int(digit) for digit in row] for row in FLEISS.split()], dtype=float)
    agreement = np.array([(counts * (counts - 1)).sum(axis=1).mean() / 30])
    assert fleiss_kappa(agreement, counts.mean(axis=0)[None] / 6) == pytest.approx(0.430, abs=5e-4)


def test_weighted_kappa_is_that_of_cohens_worked_example():
    # Cohen (1968), table 1: 200 patients; the weights of disagreement are 0, 1, 3 / 1, 0, 6 / 3, 6, 0
    table = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]], dtype=float)
    weights = np.array([[0, 1, 3], [1, 0, 6], [3, 6, 0]], dtype=float)
    plain = cohen_kappa(table[None], distance_weights(np.arange(3.0), 0))
    assert (plain[0], cohen_kappa(table[None], weights)[0]) == pytest.approx((0.492, 0.348), abs=5e-4)


def test_ac1_is_that_of_gwets_table_of_two_raters():
    # Gwet (2008): 118 + 2 + 5 + 0 of 125, kappa -0.0234 and AC1 0.9408, where nearly all is agreed
    own, others = np.repeat([[1, 1], [1, 0], [0, 1]], [118, 5, 2], axis=0).T
    found = values(of_two(own, others, (0, 1)))
    assert (found["cohen_kappa"], found["gwet_ac1"]) == pytest.approx((-0.0234, 0.9408), abs=5e-5)


# -------- other implementations
@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(1)
    own = rng.integers(0, 5, 120) / 4
    return own, np.clip(own + rng.integers(-1, 2, 120) / 4, 0, 1)


def test_correlations_are_scipys(drawn):
    found = values(of_two(*drawn))
    expected = [function(*drawn).statistic for function in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]
    assert [found[name] for name in ("pearson", "spearman", "kendall_tau_b")] == pytest.approx(expected)


def test_errors_bias_and_spread_are_numpys(drawn):
    found = values(of_two(*drawn))
    own, others = drawn
    expected = [np.sqrt(np.mean((own - others) ** 2)), np.mean(own - others), own.std() / others.std()]
    assert [found[name] for name in ("rmse", "bias", "spread")] == pytest.approx(expected)


def test_quadratic_kappa_is_one_less_the_mean_square_over_that_of_chance(drawn):
    own, others = drawn
    chance = np.square(own[:, None] - others[None, :]).mean()
    assert values(of_two(own, others))["cohen_kappa_quadratic"] == pytest.approx(
        1 - np.mean((own - others) ** 2) / chance
    )


def test_two_raters_among_themselves_are_two_sides(drawn):
    matrix = np.stack(drawn)
    among, sides = measure_raters(matrix, matrix, np.array([])), of_two(*drawn)
    both = [name for name in STATISTICS if name not in ("bias", "spread")]
    assert [values(among)[name] for name in both] == pytest.approx([values(sides)[name] for name in both], abs=1e-9)


def test_a_third_rater_who_says_nothing_changes_nothing(drawn):
    silent = np.full(drawn[0].size, NONE)
    found = values(measure_raters(np.stack([*drawn, silent]), np.stack([*drawn, silent]), np.array([])))
    shared = [name for name in STATISTICS if name.startswith(("alpha", "fleiss", "gwet", "percent", "icc_1"))]
    expected = values(of_two(*drawn))
    assert [found[name] for name in shared] == pytest.approx([expected[name] for name in shared])


def test_each_rating_of_another_one_is_a_pair():
    # rater a against b and c: (1, 1), (1, 0), (0, 0): 2 of 3 agree, over 2 outputs
    matrix = np.array([[1, 0], [1, NONE], [0, 0]])
    found = measure_sides(matrix, matrix, np.array([0.0, 1.0]))
    assert (found.n, found.pair_count, values(found)["percent_agreement"]) == (2, 3, pytest.approx(2 / 3))


# -------- intervals
def test_an_interval_is_the_same_each_time(drawn):
    assert of_two(*drawn) == of_two(*drawn)


def interval_of(found, name):
    (each,) = [each for each in found.measures if each.statistic == name]
    return each.ci_low, each.ci_high


def test_a_bias_has_the_interval_of_student(drawn):
    # the jackknife of a mean is its standard error, with n - 1 degrees
    differences = drawn[0] - drawn[1]
    low, high = stats.t.interval(0.95, 119, differences.mean(), stats.sem(differences))
    assert interval_of(of_two(*drawn), "bias") == pytest.approx((low, high), abs=1e-9)


def test_an_interval_of_agreement_is_wilsons_of_what_the_rate_is_worth(drawn):
    # 119 of 120 degrees of the variance, and t of 119 degrees: worth 119 (1.95996 / 1.98010)^2 = 116.6
    found = of_two(*drawn)
    rate, worth = values(found)["percent_agreement"], 119 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 119)) ** 2
    z = stats.norm.ppf(0.975)
    centre, margin = rate + z * z / 2 / worth, z * np.sqrt(rate * (1 - rate) / worth + z * z / 4 / worth**2)
    bounds = tuple((centre + side * margin) / (1 + z * z / worth) for side in (-1, 1))
    assert interval_of(found, "percent_agreement") == pytest.approx(bounds, abs=1e-9)


def test_pairs_of_one_output_are_left_out_together(drawn):
    # each pair three times, by three raters who copy: as uncertain as once
    own, others = drawn
    copied = np.stack([own, others, others, others])
    found = measure_sides(copied, copied, np.array([]))
    names = ("percent_agreement", "cohen_kappa_quadratic", "bias", "spearman")
    expected = of_two(own, others)
    assert all(interval_of(found, name) == pytest.approx(interval_of(expected, name), abs=1e-9) for name in names)


def test_equal_outputs_of_a_case_tell_no_more_than_one(drawn):
    # 24 cases, and the same with each output five times: figures and intervals are equal
    once = np.stack([each[:24] for each in drawn])
    five_times = np.repeat(once, 5, axis=1)
    clustered = measure_sides(five_times, five_times, np.array([]), np.repeat(np.arange(24), 5))
    names = ("percent_agreement", "cohen_kappa_quadratic", "bias", "spearman")
    plain = measure_sides(once, once, np.array([]))
    assert all(interval_of(clustered, name) == pytest.approx(interval_of(plain, name), abs=1e-9) for name in names)


def test_many_different_outputs_have_the_interval_of_fisher():
    rng = np.random.default_rng(2)
    own = rng.normal(0.5, 0.1, 2_000)
    others = own + rng.normal(0, 0.1, own.size)
    found = interval_of(of_two(own, others), "pearson")
    assert found == pytest.approx(tuple(stats.pearsonr(own, others).confidence_interval()), abs=0.006)


def test_raters_drawn_anew_widen_the_intervals_of_the_two_way_random_forms():
    # 60 outputs, four raters of very different severity: cases alone tell nothing of that
    rng = np.random.default_rng(4)
    quality, severity = rng.normal(0.5, 0.1, 60), np.array([[-0.15], [-0.05], [0.05], [0.15]])
    ratings = quality + severity + rng.normal(0, 0.03, (4, 60))
    found = measure_raters(ratings, ratings, np.array([]))
    widths = {name: np.ptp(interval_of(found, name)) for name in ("icc_2_1", "icc_3_1")}
    assert widths["icc_2_1"] > 3 * widths["icc_3_1"]


# -------- gaps
def test_two_raters_with_gaps_have_the_figures_of_irrcac():
    # irrCAC counts every rating in the shares of levels: 5 of 10 outputs have two ratings, 4 of these agree.
    a = [1, 1, 1, 0, 1, 1, 1, NONE, NONE, 0]
    b = [1, 1, 1, 0, 0, NONE, NONE, 1, 0, NONE]
    found = values(measure_raters(matrix := np.array([a, b], dtype=float), matrix, np.array([0.0, 1.0])))
    # Share of 1: (1 + 1 + 1 + 0 + .5 + 1 + 1 + 1 + 0 + 0) / 10 = .65: chance .545 and .455; irrCAC: 0.56044 and 0.63303
    assert found["fleiss_kappa"] == pytest.approx((0.8 - 0.545) / 0.455, abs=1e-9)
    assert found["gwet_ac1"] == pytest.approx((0.8 - 0.455) / 0.545, abs=1e-9)
    assert (found["fleiss_kappa"], found["gwet_ac1"]) == pytest.approx((0.56044, 0.63303), abs=5e-6)


def test_an_icc_says_how_many_outputs_it_used():
    matrix = np.array([[1, 0, 1, 0, 1], [1, 0, 0, 0, NONE], [1, 1, 1, 0, NONE]])
    found = measure_raters(matrix, matrix, np.array([0.0, 1.0]))
    counts = {each.statistic: each.n for each in found.measures}
    assert (found.n, counts["icc_1_1"], counts["icc_2_1"], counts["icc_3_k"]) == (4, 4, 4, 4)
    matrix[2, 0] = NONE
    counts = {each.statistic: each.n for each in measure_raters(matrix, matrix, np.array([0.0, 1.0])).measures}
    assert (counts["icc_1_1"], counts["icc_2_1"]) == (4, 3)


# -------- what can't be told
def test_equal_ratings_agree_and_have_no_kappa():
    found = {each.statistic: each for each in of_two([1, 1, 1], [1, 1, 1], (0, 1)).measures}
    assert (found["percent_agreement"].value, found["cohen_kappa"].value) == (1.0, None)
    assert reason_words(found["cohen_kappa"].reason) == "the ratings are all equal, or too few"


def test_a_side_that_never_changes_has_no_correlation():
    (found,) = [each for each in of_two([0, 1, 0], [1, 1, 1]).measures if each.statistic == "spearman"]
    assert (found.value, reason_words(found.reason)) == (None, "the ratings of one side are all equal")


@pytest.mark.parametrize("ratings", [[], [1.0]], ids=["none", "one"])
def test_too_few_outputs_have_no_interval(ratings):
    found = of_two(ratings, ratings, (0, 1))
    assert found.n == len(ratings)
    assert all(each.ci_low is None and each.reason for each in found.measures)


def test_more_than_two_raters_have_no_kappa_of_two(krippendorff):
    reasons = {each.statistic: reason_words(each.reason) for each in krippendorff.measures}
    assert reasons["cohen_kappa"] == "it is of two raters, found 4"
    assert reasons["bias"] == "it is of one rater against the others"


def test_outputs_that_no_two_raters_share_have_no_two_way_correlation():
    matrix = np.array([[1, 0, NONE, 1], [1, NONE, 0, 0], [NONE, 1, 0, NONE]])
    (found,) = [each for each in measure_raters(matrix, matrix, np.array([])).measures if each.statistic == "icc_2_1"]
    assert (found.value, reason_words(found.reason)) == (None, "fewer than 2 outputs were rated by every rater")


def test_many_different_scores_are_no_levels():
    own = np.linspace(0, 1, MOST_LEVELS + 1)
    found = {each.statistic: each for each in of_two(own, own[::-1]).measures}
    assert (
        reason_words(found["cohen_kappa"].reason) == f"found more than {MOST_LEVELS} different scores, expected levels"
    )
    assert found["pearson"].value == pytest.approx(-1)


def test_a_missing_rating_is_no_zero():
    with_gap = of_two([1, 0, 1, NONE], [1, 0, 0, 1])
    assert values(with_gap) == values(of_two([1, 0, 1], [1, 0, 0]))


def test_the_confusion_matrix_has_the_first_raters_levels_down():
    levels = np.array([[0, 0, 1, 1], [0, 1, 1, NONE]])
    assert confusion_matrix(levels, np.array([0.0, 1.0])).tolist() == [[1, 1], [0, 1]]


# -------- real ratings
def test_real_ratings_of_many_raters_have_the_alphas_of_the_package_krippendorff():
    # Microsoft's LLM-Rubric, criterion Q1: 24 raters of 250 dialogues; the package's version 0.9.0 gave these
    found = [path for path in Path(__file__).parents[5].glob("*/data/llm_rubric_synth/human*.tsv") if path.is_file()]
    if not found:
        pytest.skip("the ratings of LLM-Rubric are not there")
    with found[0].open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if float(row["Q1"] or 0) > 0]
    texts, raters = ([*dict.fromkeys(row[name] for row in rows)] for name in ("text_id", "annotator_id"))
    matrix = np.full((len(raters), len(texts)), NONE)
    for row in rows:
        matrix[raters.index(row["annotator_id"]), texts.index(row["text_id"])] = float(row["Q1"])
    alphas = values(measure_raters(matrix, matrix, np.arange(1.0, 5.0)))
    assert [alphas[f"alpha_{metric}"] for metric in ("nominal", "ordinal", "interval")] == pytest.approx(
        [-0.028297208, -0.015600302, -0.047032345], abs=1e-8
    )
    assert np.mean([float(row["Q1"]) for row in rows]) == pytest.approx(3.213605442176871)

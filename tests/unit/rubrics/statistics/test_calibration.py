"""Calibrated means: against worked numbers, a plain second way, and where too little is known."""

import numpy as np
import pytest
from scipy.stats import beta

from gradebook.rubrics.statistics.calibration import (
    Rated,
    corrected_mean,
    fold_weights,
    judge_weight,
    measure_influences,
    naive_mean,
    rated_mean,
    ratings_to_halve,
    selection_shift,
    suspicious_shift,
)
from gradebook.rubrics.statistics.rating_estimates import post_stratified_mean, rogan_gladen_mean
from gradebook.rubrics.text.reasons import reason_words

LEVELS = (0.0, 1.0)


def drawn(n=100, unrated=1_000, noise=0.1, seed=1):
    """Scores a tenth too high, beside noisy ratings around 0.5."""
    rng = np.random.default_rng(seed)
    ratings = np.clip(rng.normal(0.5, 0.15, n + unrated), 0, 1)
    scores = np.clip(ratings + 0.1 + rng.normal(0, noise, n + unrated), 0, 1)
    return Rated(ratings[:n], scores[:n], scores[n:])


def counted(high_high, high_low, low_high, low_low, unrated_high, unrated_low):
    """Two levels: rated high and judged high, rated high and judged low, and so on."""
    ratings = np.repeat([1.0, 1.0, 0.0, 0.0], [high_high, high_low, low_high, low_low])
    judged = np.repeat([1.0, 0.0, 1.0, 0.0], [high_high, high_low, low_high, low_low])
    return Rated(ratings, judged, np.repeat([1.0, 0.0], [unrated_high, unrated_low]))


def shared_cases():
    """100 cases of 5 outputs that differ little, the first rated; and the same as if each output was its own case."""
    rng = np.random.default_rng(5)
    levels = rng.normal(0.5, 0.15, 100)[:, None]
    ratings = np.clip(levels + rng.normal(0, 0.05, (100, 5)), 0, 1)
    scores = np.clip(levels + 0.05 + rng.normal(0, 0.1, (100, 5)), 0, 1)
    parts = ratings[:, 0], scores[:, 0], scores[:, 1:].ravel()
    return Rated(*parts, np.arange(100), np.repeat(np.arange(100), 4)), Rated(*parts)


def more_ratings(rated):
    return ratings_to_halve(rated, corrected_mean(rated), judge_weight(rated))


# -------- the corrected mean
def test_the_corrected_mean_is_the_formula_of_the_paper_with_weights_of_the_other_outputs():
    # f: 0, 1, 0, 1 and 6 of 8; y: 0, 1, 0, 0. cov(y, f) = 1/6; var(f) over all 12 = 8/12 x 4/12 = 2/9
    # lambda = 1/6 / ((1 + 4/8) x 2/9) = 1/2. Without one: 1/6 / (11/8 x 24/121) = 11/18 (first and third), 0 (second),
    # 1/3 / (11/8 x 28/121) = 22/21, at most 1 (last). Mean = (2 x 11/18 x 3/4 + 1 - 1 x (1 - 3/4)) / 4 = 5/12
    rated = Rated(np.array([0.0, 1, 0, 0]), np.array([0.0, 1, 0, 1]), np.repeat([1.0, 0.0], [6, 2]))
    assert judge_weight(rated) == pytest.approx(0.5, abs=1e-12)
    assert fold_weights(rated) == pytest.approx([11 / 18, 0, 11 / 18, 1], abs=1e-12)
    assert corrected_mean(rated).value == pytest.approx(5 / 12, abs=1e-12)


def test_few_ratings_on_skewed_levels_are_unbiased_and_covered():
    # Shares .05, .10, .85 of levels 0, .5, 1, mean .9; the judge is one level too lenient in two of five. With a weight
    # fitted on the same ratings the bias is +.016, and 86% of the intervals cover the mean. Here the standard error of
    # the mean of 400 values is .0021, and 366 of 400 is four standard deviations below 95%.
    rng = np.random.default_rng(3)
    values, held = [], 0
    for _ in range(400):
        ratings = rng.choice(3, 220, p=(0.05, 0.10, 0.85))
        scores = np.clip(ratings + (rng.random(220) < 0.4), 0, 2) / 2.0
        found = corrected_mean(Rated(ratings[:20] / 2.0, scores[:20], scores[20:]), (0.0, 0.5, 1.0))
        values.append(found.value)
        held += found.ci_low <= 0.9 <= found.ci_high
    assert abs(np.mean(values) - 0.9) < 0.008
    assert held >= 366


def test_a_good_judge_makes_the_interval_narrower_than_ratings_alone():
    rated = drawn(noise=0.03)
    assert corrected_mean(rated).width < 0.5 * rated_mean(rated).width


def test_the_judges_bias_is_taken_out():
    rated = drawn(noise=0.03)
    assert naive_mean(rated).value == pytest.approx(0.6, abs=0.02)
    assert corrected_mean(rated).value == pytest.approx(0.5, abs=0.02)


def test_near_the_ceiling_the_interval_reaches_as_far_as_the_exact_one():
    # 28 good of 30 is as little as 0.98 gives in 12% of samples; Wilson's upper end would be 0.982.
    assert rated_mean(counted(28, 0, 1, 1, 970, 30), LEVELS).ci_high == pytest.approx(beta(29, 2).ppf(0.975))
    assert corrected_mean(counted(26, 1, 1, 2, 1900, 100), LEVELS).ci_high > 0.99


def test_with_hardly_a_bad_rating_the_judge_does_not_narrow_the_interval():
    # At a rate of .97 the judge finds the one bad output of 20 in 9% of samples; the upper end was then below .97.
    def reach(bad):
        rated = counted(20 - bad, 0, 0, bad, 930, 70)
        found, alone = corrected_mean(rated, LEVELS), rated_mean(rated, LEVELS)
        return found.ci_low <= alone.ci_low and found.ci_high >= alone.ci_high

    assert [reach(bad) for bad in range(5)] == [True] * 4 + [False]


def test_a_judge_that_says_the_contrary_gets_no_weight():
    rated = drawn()
    contrary = Rated(rated.ratings, 1 - rated.judged, 1 - rated.unrated)
    assert judge_weight(contrary) == 0.0
    assert corrected_mean(contrary) == rated_mean(contrary)


def test_a_judge_that_never_changes_gets_no_weight():
    constant = Rated(drawn().ratings, np.ones(100), np.ones(1_000))
    assert (judge_weight(constant), corrected_mean(constant)) == (0.0, rated_mean(constant))


def test_where_all_is_rated_the_judge_is_not_asked():
    rated = drawn(unrated=0)
    assert (judge_weight(rated), corrected_mean(rated)) == (0.0, rated_mean(rated))


def test_two_levels_without_an_error_seen_still_have_a_width():
    found = corrected_mean(counted(28, 0, 0, 2, 900, 100), LEVELS)
    assert 0.01 < found.width < 0.4


def test_outputs_of_one_case_are_not_taken_for_independent():
    rated = drawn(n=60, unrated=600)
    copied = Rated(*(np.repeat(each, 4) for each in (rated.ratings, rated.judged, rated.unrated)))
    cases, unrated_cases = np.repeat(np.arange(60), 4), np.repeat(np.arange(600), 4)
    clustered = Rated(copied.ratings, copied.judged, copied.unrated, cases, unrated_cases)
    assert corrected_mean(copied).width < 0.6 * corrected_mean(clustered).width
    assert corrected_mean(clustered).width == pytest.approx(corrected_mean(rated).width, rel=0.05)


def test_two_levels_of_outputs_that_go_together_by_case_count_cases():
    rated = counted(44, 4, 4, 12, 300, 100)
    parts = tuple(np.repeat(each, 5) for each in (rated.ratings, rated.judged, rated.unrated))
    clustered = Rated(*parts, np.repeat(np.arange(64), 5), np.repeat(np.arange(64, 464), 5))
    assert corrected_mean(clustered, LEVELS).width == pytest.approx(corrected_mean(rated, LEVELS).width, rel=0.03)


def test_the_judges_weight_is_by_what_cases_say_and_not_by_their_outputs():
    # f: 0, 1, 0, 1 and 6 of 8; y: 0, 1, 0, 0, each twice. By case cov(y, f) / n = 1/24, var(f) / n = 1/12, and of the
    # others 3/112: lambda = 1/24 / (1/12 + 3/112) = 14/37
    parts = np.array([0.0, 1, 0, 0]), np.array([0.0, 1, 0, 1]), np.repeat([1.0, 0.0], [6, 2])
    cases = np.repeat(np.arange(4), 2), np.repeat(np.arange(4, 12), 2)
    assert judge_weight(Rated(*(np.repeat(each, 2) for each in parts), *cases)) == pytest.approx(14 / 37)


def test_one_case_alone_has_no_interval():
    rated = drawn(n=10, unrated=60)
    one = Rated(rated.ratings, rated.judged, rated.unrated, np.zeros(10), np.repeat(np.arange(1, 31), 2))
    assert reason_words(corrected_mean(one).reason) == "too few outputs to tell how sure it is"


def test_cases_of_which_all_or_nothing_is_rated_are_two_samples():
    rated = drawn(n=60, unrated=600)
    apart = Rated(rated.ratings, rated.judged, rated.unrated, np.arange(60), 60 + np.arange(600))
    assert corrected_mean(apart).width == pytest.approx(corrected_mean(rated).width, rel=1e-12)


def test_the_variance_of_cases_in_both_parts_is_that_of_case_sums():
    # both means 0.5; one value a case in either part: (0.1 - 0.5) / 4 / sqrt(1 - 1/4) = -0.11547
    found = measure_influences(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.2, 0.3, 0.7, 0.8]), range(4), range(4))
    assert found.own[0] == pytest.approx(-0.1154701)
    # over 4 x 3: (-0.4 x -0.3) + (-0.1 x -0.2) + (0.1 x 0.2) + (0.4 x 0.3) = 0.28
    assert found.covariance == pytest.approx(0.28 / 12)


def test_cases_in_both_parts_widen_the_interval_where_errors_and_scores_rise_together():
    clustered, apart = shared_cases()
    assert corrected_mean(clustered).width > 1.1 * corrected_mean(apart).width


def test_a_shift_within_cases_is_measured_against_what_the_cases_share():
    clustered, apart = shared_cases()
    assert abs(selection_shift(clustered)) > 1.5 * abs(selection_shift(apart))


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_two_unrated_units_leave_the_ratings_alone(count):
    rated = drawn(n=20, unrated=count)
    one_case = Rated(rated.ratings, rated.judged, rated.unrated, np.arange(20), np.zeros(count))
    assert (judge_weight(one_case), corrected_mean(one_case)) == (0.0, rated_mean(one_case))
    assert corrected_mean(drawn(n=20, unrated=1)).width is not None


@pytest.mark.parametrize(("n", "words"), [(0, "0 rated outputs"), (1, "1 rated output"), (2, "2 rated outputs")])
def test_too_few_ratings_correct_nothing_and_say_so(n, words):
    found = corrected_mean(drawn(n=n))
    assert (found.value, found.ci_low) == (None, None)
    assert reason_words(found.reason) == f"found {words}, expected 3 or more"


def test_no_ratings_leave_the_judge_alone():
    nobody = drawn(n=0)
    assert naive_mean(nobody).value == pytest.approx(nobody.unrated.mean())
    assert rated_mean(nobody).value is None


def test_nineteen_of_twenty_intervals_hold_the_mean():
    # 400 draws: the count is Binomial(400, 0.95), within 4 standard deviations of 4.36
    held = 0
    for seed in range(400):
        found = corrected_mean(drawn(n=40, unrated=400, seed=seed))
        held += found.ci_low <= 0.5 <= found.ci_high
    assert 362 <= held <= 397


# -------- Rogan and Gladen
def test_the_prevalence_and_its_interval_are_those_of_lang_and_reiczigel():
    # Rates 0.9 of 100 and 0.8 of 100, a share of 0.34 of 200: (0.34 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.2. By hand:
    # n' = 203.8415, p' = 69.92073 / 203.8415 = 0.343015; se' = 91/102, sp' = 81/102; prev' = 0.137133 / 0.686275
    found = rogan_gladen_mean(counted(90, 10, 20, 80, 68, 132), LEVELS)
    p, se, sp, z = 69.92073 / 203.84146, 91 / 102, 81 / 102, 1.959964
    prevalence = (p + sp - 1) / (se + sp - 1)
    errors = se * (1 - se) / 102, sp * (1 - sp) / 102
    shift = 2 * z**2 * (prevalence * errors[0] - (1 - prevalence) * errors[1])
    variance = p * (1 - p) / 203.84146 + prevalence**2 * errors[0] + (1 - prevalence) ** 2 * errors[1]
    margin = z * variance**0.5 / (se + sp - 1)
    expected = (0.2, prevalence + shift - margin, prevalence + shift + margin)
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx(expected, abs=1e-6)


def test_a_perfect_judge_is_believed():
    assert rogan_gladen_mean(counted(50, 0, 0, 50, 300, 100), LEVELS).value == pytest.approx(0.75)


def test_other_scores_than_0_and_1_are_stretched():
    rated = counted(50, 0, 0, 50, 300, 100)
    halved = Rated(0.25 + rated.ratings / 2, 0.25 + rated.judged / 2, 0.25 + rated.unrated / 2)
    assert rogan_gladen_mean(halved, (0.25, 0.75)).value == pytest.approx(0.25 + 0.75 / 2)


def test_a_judge_no_better_than_chance_has_no_prevalence():
    found = rogan_gladen_mean(counted(20, 20, 20, 20, 50, 50), LEVELS)
    assert (found.value, reason_words(found.reason)[:40]) == (None, "the judge is no better than chance: sens")


def test_a_level_that_nobody_gave_leaves_the_error_rate_unknown():
    assert reason_words(rogan_gladen_mean(counted(20, 2, 0, 0, 50, 50), LEVELS).reason).startswith(
        "found 22 and 0 outputs rated"
    )


def test_raters_who_are_evenly_split_count_nowhere():
    rated = counted(50, 0, 0, 50, 300, 100)
    split = Rated(np.append(rated.ratings, 0.5), np.append(rated.judged, 1.0), rated.unrated)
    assert rogan_gladen_mean(split, LEVELS) == rogan_gladen_mean(rated, LEVELS)


def test_an_error_rate_of_outputs_that_go_together_by_case_counts_cases():
    rated = counted(44, 4, 4, 12, 300, 100)
    parts = tuple(np.repeat(each, 5) for each in (rated.ratings, rated.judged, rated.unrated))
    clustered = Rated(*parts, np.repeat(np.arange(64), 5), np.repeat(np.arange(64, 464), 5))
    copied, found = rogan_gladen_mean(Rated(*parts), LEVELS), rogan_gladen_mean(clustered, LEVELS)
    assert copied.width < 0.5 * found.width
    # A rate of 16 cases is worth 15, and fewer still by t where their outputs would have had 80.
    assert rogan_gladen_mean(rated, LEVELS).width < found.width < 1.2 * rogan_gladen_mean(rated, LEVELS).width


def test_an_error_rate_of_one_case_has_no_interval():
    rated = counted(30, 2, 1, 3, 300, 100)
    one_bad_case = np.append(np.arange(32), np.full(4, 32))
    found = rogan_gladen_mean(Rated(rated.ratings, rated.judged, rated.unrated, one_bad_case, np.arange(400)), LEVELS)
    assert (found.value is None, reason_words(found.reason)) == (False, "too few outputs to tell how sure it is")


# -------- how many more, and whom
def test_a_useless_judge_takes_about_four_times_the_ratings():
    # t of 98 degrees is 1.984, of some 400 it is 1.966: (1.966 / 1.984)^2 x 400 = 393 in all, and 300 or so more
    rated = drawn(unrated=100_000)
    useless = Rated(rated.ratings, np.zeros(100), np.zeros(100_000))
    more, reason = more_ratings(useless)
    assert (more, reason) == (pytest.approx(293, abs=3), None)


def test_so_many_more_ratings_do_halve_it():
    rng = np.random.default_rng(3)
    ratings = rng.random(4_000)
    scores = np.clip(ratings + rng.normal(0, 0.4, ratings.size), 0, 1)
    first = Rated(ratings[:100], scores[:100], scores[100:])
    n = 100 + (more_ratings(first)[0] or 0)
    later = Rated(ratings[:n], scores[:n], scores[n:])
    assert corrected_mean(later).width == pytest.approx(corrected_mean(first).width / 2, rel=0.1)


def test_what_no_rating_can_halve_is_said():
    more, reason = more_ratings(drawn(n=100, unrated=100))
    assert more is None
    assert reason_words(reason).startswith("with all 200 outputs rated it would still be ")


def test_rated_outputs_that_are_unlike_the_others_are_seen():
    rng = np.random.default_rng(4)
    scores = rng.random(400)
    lowest = np.sort(scores)[:50]
    assert abs(selection_shift(Rated(lowest, lowest, np.sort(scores)[50:]))) > 3
    assert abs(selection_shift(Rated(scores[:50], scores[:50], scores[50:]))) < 3


def test_sides_that_are_all_equal_and_differ_are_apart():
    # sd of 40 scores, 10 of them 0: .4330; times the root of 1/10 + 1/30: .1581; 1 / .1581 = 6.32
    assert selection_shift(Rated(np.zeros(10), np.zeros(10), np.ones(30))) == pytest.approx(-(40**0.5), abs=1e-12)
    assert selection_shift(Rated(np.zeros(10), np.ones(10), np.ones(30))) is None


@pytest.mark.parametrize(("n", "bound"), [(30, 2.0), (100, 2.5), (400, 3.0)])
def test_few_ratings_are_suspected_sooner(n, bound):
    assert suspicious_shift(drawn(n=n)) == bound


# -------- ratings that are not a random sample
def test_ratings_chosen_by_the_judges_scores_are_weighted_by_them():
    # 0: rated 0, 0, 1, and 8 of 20 outputs; 1: rated 1, 1, 0, 1, and 12: 8/20 x 1/3 + 12/20 x 3/4 = 7/12
    rated = Rated(np.array([0.0, 0, 1, 1, 1, 0, 1]), np.repeat([0.0, 1.0], [3, 4]), np.repeat([0.0, 1.0], [5, 8]))
    assert post_stratified_mean(rated).value == pytest.approx(7 / 12, abs=1e-12)


def test_intervals_of_ratings_chosen_by_the_judges_scores_hold_the_mean():
    # 300 draws: within 4 standard deviations of 3.8. Outputs with a score below .5 are rated four times as often.
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(300):
        ratings, scores = rng.choice(3, (2, 600), p=(0.1, 0.3, 0.6)) / 2.0
        scores = np.where(rng.random(600) < 0.7, ratings, scores)
        chosen = rng.choice(600, 60, replace=False, p=(p := 1.0 + 3.0 * (scores < 0.5)) / p.sum())
        is_rated = np.isin(np.arange(600), chosen)
        found = post_stratified_mean(Rated(ratings[is_rated], scores[is_rated], scores[~is_rated]))
        held += found.ci_low <= 0.75 <= found.ci_high
    assert held >= 270


def test_a_score_without_ratings_leaves_no_mean_and_is_named():
    rated = Rated(np.array([0.0, 1, 0, 1]), np.zeros(4), np.repeat([0.0, 1.0], [2, 9]))
    found = post_stratified_mean(rated)
    assert found.value is None
    assert reason_words(found.reason).startswith(
        "fewer than 3 ratings of outputs that the judge gave 1, which are 60% of all: rate "
    )


def test_ratings_that_do_not_vary_within_a_score_have_no_interval():
    rated = Rated(np.repeat([0.0, 1.0], 3), np.repeat([0.0, 1.0], 3), np.repeat([0.0, 1.0], [5, 8]))
    assert (post_stratified_mean(rated).value, post_stratified_mean(rated).width) == (pytest.approx(11 / 19), None)


def test_ratings_of_whole_cases_count_cases():
    rng = np.random.default_rng(6)
    ratings, scores = rng.random((2, 400))
    parts = ratings[:60], scores[:60], scores[60:]
    copied = Rated(*(np.repeat(each, 4) for each in parts))
    clustered = Rated(
        copied.ratings, copied.judged, copied.unrated, np.repeat(range(60), 4), np.repeat(range(60, 400), 4)
    )
    assert post_stratified_mean(clustered).width > 1.5 * post_stratified_mean(copied).width

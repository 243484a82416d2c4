"""Improvement of a judge's question: agreement by hand, folds, the search's cost, what is claimed on noise."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.improvement import (
    LEAST_CHANGED,
    MOST_QUESTIONS,
    bias_change,
    concordance,
    draw_folds,
    kappa_change,
    kappa_interval,
    measure_ceiling,
    more_outputs,
    order_within_cases,
    rise_power,
    search_candidates,
    with_missing_as_worst,
)

RNG = np.random.default_rng


def test_concordance_is_cohens_kappa_of_two_levels_and_lins_of_scores():
    judged, people = (np.array([1.0] * 20 + [1.0] * 5 + [0.0] * 10 + [0.0] * 15), np.array([1.0, 0.0, 1.0, 0.0]))
    people = np.repeat(people, [20, 5, 10, 15])
    # observed 35/50 = .7, by chance .5 * .6 + .5 * .4 = .5: (.7 - .5) / .5 = .4 (Cohen 1960, the usual example)
    assert concordance(judged, people) == pytest.approx(0.4)
    # 2 cov / (var + var + (mean difference)^2): 2 * .125 / (.125 + .125 + .0625) = .8
    assert concordance(np.array([0.25, 1.0, 0.25, 1.0]) - 0.25, np.array([0.25, 1.0, 0.25, 1.0])) == pytest.approx(
        2 * 0.140625 / (2 * 0.140625 + 0.0625)
    )
    assert np.isnan(concordance(np.ones(4), np.ones(4)))


def test_folds_are_of_whole_cases_and_share_the_scores():
    clusters = np.repeat(np.arange(80), 2)
    people = (clusters % 4 == 0).astype(np.float64)
    folds = draw_folds(people, 1.0 - people, clusters, RNG(1))
    parts = [folds.inner(0), folds.middle(0), folds.inner(1), folds.middle(1)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(160))
    assert [set(clusters[one]) & set(clusters[other]) for one in parts for other in parts if one is not other] == [
        set()
    ] * 12
    assert [float(people[part].mean()) for part in parts] == [0.25] * 4
    assert set(folds.outer(0)) == set(np.concatenate(parts[2:]))


def test_a_candidate_is_never_measured_on_cases_that_proposed_or_chose_it_and_costs_three_judgments_an_output():
    rng, people = RNG(3), RNG(2).integers(0, 2, 150).astype(np.float64)
    judged = np.where(rng.random(150) < 0.7, people, 1 - people)
    folds = draw_folds(people, judged, np.arange(150), rng)
    asked: dict[tuple[int, int], list[int]] = {}

    def propose(half, inner):
        return [(half, number) for number in range(3)]

    def judge(candidate, indices):
        asked.setdefault(candidate, []).extend(indices.tolist())
        return people[indices] if candidate[1] == 1 else judged[indices]

    search = search_candidates(people, judged, folds, propose, judge, rng)
    assert search.chosen == ((0, 1), (1, 1))
    assert sum(map(len, asked.values())) == search.question_count <= MOST_QUESTIONS * 150
    for (half, number), indices in asked.items():
        own = set(folds.inner(half)) | set(folds.middle(half))
        assert set(indices) <= (own | set(folds.outer(half)) if number == 1 else own)
    assert [tried.kappa for tried in search.tried if tried.reason is None] == [1.0, 1.0]
    assert kappa_change(judged, search.after, people, np.arange(150)).after == 1.0


def test_a_search_without_candidates_changes_and_asks_nothing():
    people = np.array([0.0, 1.0] * 30)
    folds = draw_folds(people, people, np.arange(60), RNG(0))
    search = search_candidates(people, people, folds, lambda half, inner: [], lambda one, at: 1 / 0, RNG(0))
    assert (search.question_count, search.best, search.tried) == (0, None, ())
    change = kappa_change(people, search.after, people, np.arange(60))
    assert (change.rise, change.low, change.p, change.changed_count) == (0.0, None, None, 0)


def test_the_rise_has_the_interval_of_its_jackknife():
    # Six of sixty verdicts are repaired: kappa .8 to 1.0. Leave-one-out values by hand are slow; the error of a mean of
    # six gains of 1/30 among sixty is near: 2 * sqrt(.1 * .9 / 60) = .077
    people = np.array([0.0, 1.0] * 30)
    before = people.copy()
    before[:6] = 1 - before[:6]
    change = kappa_change(before, people, people, np.arange(60))
    assert (change.before, change.after, change.changed_count) == (pytest.approx(0.8), 1.0, LEAST_CHANGED)
    assert change.standard_error == pytest.approx(0.079, abs=0.002)
    assert change.low == pytest.approx(0.2 - 2.0025 * change.standard_error, abs=1e-3)
    assert more_outputs(change) == 17  # ((1.96 + .84) * .0797 * sqrt(60) / .2)^2 = 75 outputs, by t 77


def test_an_unscored_output_counts_as_the_worst_and_bias_by_its_size():
    people = np.array([0.0, 1.0, 0.5, 0.25])
    assert with_missing_as_worst(np.full(4, np.nan), people).tolist() == [1.0, 0.0, 0.0, 1.0]
    before, after = people + 0.0, np.array([0.0, 1.0, 0.0, 0.0])
    change = bias_change(before, after, people, np.arange(4))
    assert (change.before, change.after) == (0.0, pytest.approx(0.1875))


def test_order_counts_pairs_of_one_case_that_people_tell_apart():
    people, cases = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0, 0, 0, 1])
    order = order_within_cases(np.array([0.0, 1.0, 0.0, 1.0]), people, people, cases)
    assert (order.pair_count, order.before, order.after) == (2, 0.75, 1.0)


def test_people_are_the_ceiling_over_pairs_in_both_orders():
    ratings = [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0]]
    ceiling = measure_ceiling(ratings, np.array([1.0, 0.0, 1.0, 0.0]))
    # people: 4 of 6 ordered pairs agree, half by chance: 1/3. judge: 5 of 6 ratings; by chance 4/6 * 3/6 + 2/6 * 3/6.
    assert ceiling is not None
    assert (ceiling.n, ceiling.people, ceiling.judge) == (3, pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert measure_ceiling([[1.0], [0.0]], np.zeros(2)) is None


def test_power_is_that_of_the_paired_test():
    # 150 outputs, kappa .5, half of them good: a rise of .20 four times in five; 60: one of .31.
    people = np.array([0.0, 1.0] * 75)
    judged = people.copy()
    judged[:38] = 1 - judged[:38]
    power = rise_power(judged, people, np.arange(150))
    assert power.detectable == pytest.approx(0.20, abs=0.01)
    assert power.of_twenty == pytest.approx(0.8, abs=0.03)
    fewer = rise_power(judged[30:90], people[30:90], np.arange(60))
    assert rise_power(people, people, np.arange(150)).detectable is None
    assert fewer.n == 60


@pytest.mark.nightly
def test_noise_is_claimed_at_most_as_often_as_the_level_says():
    rng, claims, covered = RNG(5), 0, 0
    for _ in range(600):
        people = rng.integers(0, 2, 100).astype(np.float64)
        judged, *others = (np.where(rng.random(100) < 0.75, people, 1 - people) for _ in range(7))
        folds = draw_folds(people, judged, np.arange(100), rng)
        search = search_candidates(
            people,
            judged,
            folds,
            lambda half, inner: range(3 * half, 3 * half + 3),
            lambda one, at, others=others: others[one][at],
            rng,
        )
        change = kappa_change(judged, search.after, people, np.arange(100))
        claims += change.low is not None and change.low > 0
        covered += change.low is None or change.high is None or change.low <= 0 <= change.high
    # 95% intervals: 2.5% claims expected, sd .6%; one measured with 1,500 draws by bench/learning.py: 2.2%
    assert claims / 600 < 0.05
    assert covered / 600 > 0.93


def test_kappa_has_an_interval_and_none_where_all_agree():
    people = np.array([0.0, 1.0] * 30)
    judged = people.copy()
    judged[:10] = 1 - judged[:10]
    kappa, ends = kappa_interval(judged, people, np.arange(60))
    assert ends is not None
    assert (kappa, ends.low < 2 / 3 < ends.high) == (pytest.approx(2 / 3), True)
    assert kappa_interval(people, people, np.arange(60)) == (1.0, None)

"""rubrics/statistics/davidson: published strengths, closed forms, and what has no finite strength."""

from math import log

import numpy as np
import pytest

from gradebook.rubrics.statistics.davidson import Choices, rank_models, weakest_link
from gradebook.rubrics.text.reasons import reason_words

# Agresti (2002), table 10.10: games of 1987 that the team of the row won against that of the column
BASEBALL = [
    [0, 7, 9, 7, 7, 9, 11], [6, 0, 7, 5, 11, 9, 9], [4, 6, 0, 7, 7, 8, 12], [6, 8, 6, 0, 6, 7, 10],
    [6, 2, 6, 7, 0, 7, 12], [4, 4, 5, 6, 6, 0, 6], [2, 4, 1, 3, 1, 7, 0],
]  # fmt: skip
PUBLISHED = [1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0.0]  # Milwaukee to Baltimore


def choices(rows, covariate=None):
    """Choices (first, second, wins of the second, times), each of a case of its own."""
    firsts, seconds, wins = (np.repeat([row[i] for row in rows], [row[3] for row in rows]) for i in range(3))
    return Choices(firsts, seconds, wins.astype(float), np.arange(wins.size), covariate)


def test_without_ties_the_strengths_are_the_published_ones_of_bradley_and_terry():
    rows = [(loser, winner, 1.0, BASEBALL[winner][loser]) for winner in range(7) for loser in range(7)]
    found = rank_models(choices(rows), 7).strengths
    relative = [each.value - found[-1].value for each in found]
    assert [round(each, 2) for each in relative] == PUBLISHED


def test_two_models_have_the_closed_form_of_davidson():
    found = rank_models(choices([(0, 1, 1.0, 30), (0, 1, 0.0, 12), (0, 1, 0.5, 20)]), 2)
    a, b = found.strengths
    assert (b.value, a.value) == pytest.approx((log(30 / 12) / 2, -log(30 / 12) / 2), abs=1e-9)
    # the variance of log(30 / 12) is 1/30 + 1/12, of half of it a quarter
    from scipy.stats import t

    error = np.sqrt((1 / 30 + 1 / 12) / 4 * 62 / 61)
    assert b.ci_high - b.value == pytest.approx(t(61).ppf(0.975) * error, rel=1e-9)


def test_a_preference_for_length_is_taken_out():
    rng = np.random.default_rng(5)
    longer = rng.normal(1.0, 1.0, 4000)  # the second model's outputs are longer, and no better
    wins = (rng.random(4000) < 1 / (1 + np.exp(-0.8 * longer))).astype(float)
    zeros, ones = np.zeros(4000, dtype=np.int64), np.ones(4000, dtype=np.int64)
    plain, adjusted = (
        rank_models(Choices(zeros, ones, wins, np.arange(4000), covariate), 2) for covariate in (None, longer)
    )
    assert plain.strengths[1].ci_low > 0.2
    assert adjusted.strengths[1].ci_low < 0 < adjusted.strengths[1].ci_high
    assert adjusted.effect == pytest.approx(0.8, abs=0.1)


def test_a_model_that_never_lost_has_no_strength_and_few_cases_have_no_interval():
    found = rank_models(choices([(0, 1, 1.0, 40), (0, 2, 1.0, 40), (1, 2, 0.5, 3)]), 3)
    assert found.strengths[0].value is None and "only won" in reason_words(found.reason)
    tied = rank_models(choices([(0, 1, 1.0, 40), (0, 1, 0.5, 3)]), 2)  # the likelihood rises without end
    assert tied.strengths[0].value is None and "only tied" in reason_words(tied.reason)
    few = rank_models(choices([(0, 1, 1.0, 5), (0, 1, 0.0, 4)]), 2)
    assert few.strengths[0].value is not None and few.strengths[0].ci_low is None


def test_models_that_fewer_than_five_cases_join_have_strengths_without_intervals():
    halves = [(low, low + 1, wins, 20) for low in (0, 2) for wins in (0.0, 1.0)]
    thin = rank_models(choices([*halves, (1, 2, 0.0, 2), (1, 2, 1.0, 2)]), 4)
    assert (
        reason_words(thin.reason)
        == "found 4 cases that join some models to the others, expected 5 or more for intervals"
    )
    assert thin.strengths[0].value is not None and thin.strengths[0].ci_low is None
    assert rank_models(choices([*halves, (1, 2, 0.0, 3), (0, 3, 1.0, 2)]), 4).strengths[0].ci_low is not None


def test_the_weakest_link_is_the_least_number_of_cases_without_which_models_fall_apart():
    # Stoer and Wagner's (1997) graph, whose minimum cut is 4: {3, 4, 7, 8} and the others
    edges = {(1, 2): 2, (1, 5): 3, (2, 3): 3, (2, 5): 2, (2, 6): 2, (3, 4): 4, (3, 7): 2, (4, 7): 2, (4, 8): 2}
    edges |= {(5, 6): 3, (6, 7): 1, (7, 8): 3}
    assert weakest_link(choices([(a - 1, b - 1, 1.0, count) for (a, b), count in edges.items()]), 8) == 4


def test_a_case_asked_in_both_orders_is_one_link():
    both_orders = choices([(0, 1, 1.0, 3), (1, 0, 0.0, 3)])
    cases = np.tile(np.arange(3), 2)
    assert weakest_link(Choices(both_orders.firsts, both_orders.seconds, both_orders.wins, cases), 2) == 3

"""A judge beside people: its gaps, and its agreement beyond chance against theirs."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import measure_raters
from gradebook.rubrics.statistics.rater_comparison import agreement_with_gaps, alpha_over_people
from gradebook.rubrics.text.reasons import reason_words

NONE = np.nan


def heard(rng, count, error):
    """Levels 0 to 1 in fifths of a quality that each voice hears with an error."""
    quality = rng.normal(size=count)
    edges = np.array([-0.84, -0.25, 0.25, 0.84]) * 1.2
    return np.array([np.searchsorted(edges, quality + sd * rng.normal(size=count)) / 4.0 for sd in error])


def test_gaps_of_the_judge_agree_with_nobody():
    # Judge 1, 0, -, 1 (the third left unscored, the fourth not rated); a: 1, 1, 1; b: 1 on the third: 1 of 4 pairs.
    levels = np.array([[1, 0, NONE, 1], [1, 1, 1, NONE], [NONE, NONE, 1, NONE]])
    found = agreement_with_gaps(levels, np.array([False, False, True, False]), np.arange(4))
    assert (found.value, found.n) == (0.25, 3)


def test_without_gaps_it_is_the_plain_agreement():
    levels = heard(np.random.default_rng(1), 40, (0.7, 0.7))
    found = agreement_with_gaps(levels, np.zeros(40, dtype=bool), np.arange(40))
    assert found.value == (levels[0] == levels[1]).mean()
    assert found.ci_low < found.value < found.ci_high


def test_alpha_over_people_is_the_difference_of_two_alphas():
    # Two people: the judge's pairs are those of a and of b, people's are those of a with b.
    scores = heard(np.random.default_rng(2), 30, (0.9, 0.6, 0.6))
    pairs = np.concatenate([scores[[0, 1]], scores[[0, 2]]], axis=1)
    of = {name: {each.statistic: each.value for each in measure_raters(rows, rows, np.array([])).measures}
          for name, rows in (("judge", pairs), ("people", scores[1:]))}  # fmt: skip
    expected = of["judge"]["alpha_interval"] - of["people"]["alpha_interval"]
    assert alpha_over_people(scores, np.arange(30)).value == pytest.approx(expected, abs=1e-9)


def test_a_judge_that_passes_everything_is_behind_people():
    # 87% of the ratings are "pass": the judge has the same level as people as often as they have among themselves
    rng = np.random.default_rng(3)
    quality = rng.random(400)
    people = np.array([(quality + 0.1 * rng.normal(size=400) > 0.13).astype(float) for _ in range(3)])
    scores = np.vstack([np.ones(400), people])
    found = alpha_over_people(scores, np.arange(400))
    assert (people == 1).mean() > (people[0] == people[1]).mean() - 0.1
    assert found.ci_high < -0.3


def test_a_judge_like_a_person_is_not_behind_by_much():
    found = alpha_over_people(heard(np.random.default_rng(5), 300, (0.6, 0.7, 0.7, 0.7)), np.arange(300))
    assert found.ci_low > -0.1


def test_one_person_an_output_tells_nothing_of_people():
    found = alpha_over_people(np.array([[1, 0, 1], [1, 0, NONE], [NONE, NONE, 1]]), np.arange(3))
    assert (found.value, reason_words(found.reason)) == (
        None,
        "fewer than 2 outputs were scored by the judge and two people",
    )

"""Remarks on figures: conflicts, rough figures, distributions."""

from dataclasses import replace

import numpy as np
import pytest

from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.distributions import pair_distributions
from gradebook.rubrics.text.remarks import caution_words, conflict_words, dominance_sentence

OWN_CASES = np.arange(40)
RNG = np.random.default_rng(5)
OF_A = RNG.choice([0.0, 0.5, 1.0], 40)
OF_B = RNG.choice([0.0, 0.5, 1.0], 40, p=[0.1, 0.3, 0.6])


def test_a_mean_that_rises_while_most_pairs_fall_is_said():
    # 3 pairs gain 1, 10 lose 0.1: the mean rises by 2 / 13
    gains = np.array([1.0] * 3 + [-0.1] * 10)
    words = conflict_words(measure_pairs(np.full(13, 0.5), 0.5 + gains, np.arange(13)))
    assert words is not None
    assert words.startswith("the mean rose by 0.154")
    assert words.endswith("but 3 are better and 10 worse: the gains are fewer but larger; neither is more than chance")


def test_a_conflict_that_is_more_than_chance_is_not_called_chance():
    found = replace(measure_pairs(OF_B, OF_A, OWN_CASES), mean_diff=0.2, p=0.04, better_count=3, worse_count=10)
    assert str(conflict_words(found)).endswith("the gains are fewer but larger")


def test_a_mean_and_wins_of_one_direction_need_no_words():
    assert conflict_words(measure_pairs(OF_A, OF_B, OWN_CASES)) is None


def test_tests_that_disagree_are_said():
    found = replace(measure_pairs(OF_A, OF_B, OWN_CASES), p=0.04, p_wilcoxon=0.2)
    assert "the mean alone tells A from B, the ranks do not" in str(conflict_words(found))


def test_few_pairs_that_differ_are_a_caution():
    of_b = np.where(np.arange(40) < 3, 0.0, 1.0)
    words = caution_words(measure_pairs(np.ones(40), of_b, OWN_CASES))
    assert words == "none of 40 pairs rose: the interval and p allow for rare gains that so few can't show"


def test_few_cases_that_moved_are_a_caution_however_many_pairs_they_have():
    # 20 cases of 5 pairs; all pairs of 4 cases fell, and in one case as many rose as fell
    fell = np.repeat(np.isin(np.arange(20), [1, 5, 9, 12]), 5).astype(float)
    fell[:2] = [1.0, -1.0]
    words = caution_words(measure_pairs(np.ones(100), 1.0 - fell, np.repeat(np.arange(20), 5)))
    assert words == "none of 20 cases rose: the interval and p allow for rare gains that so few can't show"


def test_differences_that_hardly_vary_are_a_caution():
    of_b = 0.5 + np.tile([-0.02, 0.03], 20)
    words = caution_words(measure_pairs(np.full(40, 0.5), of_b, OWN_CASES))
    assert words == "40 pairs are too few to show rare heavy losses: the interval and p allow for them"


def test_skewed_differences_are_a_caution():
    # 25 x 2.67^2 = 178 cases would be enough for t
    of_b = np.where(np.arange(80) < 8, 0.0, 0.6)
    found = measure_pairs(np.full(80, 0.5), of_b, np.arange(80))
    words = "the differences are too skewed (-2.7) for t on 80 pairs: the interval and p allow for it"
    assert caution_words(found) == words


def test_few_cases_of_many_pairs_are_a_caution():
    of_b = np.random.default_rng(1).choice([0.0, 0.5, 1.0], 40)
    assert "only 20 cases" in str(caution_words(measure_pairs(OF_A, of_b, OWN_CASES // 2)))
    assert caution_words(measure_pairs(OF_A, OF_B, OWN_CASES)) is None


def test_the_sentence_names_the_score_where_the_gap_is_widest():
    words = dominance_sentence(pair_distributions([0.0, 0.5, 0.5, 1.0], [0.5, 0.5, 1.0, 1.0]))
    assert words == (
        "Here B dominates A: at no score does it have more of its outputs at or below, and at 0 (A 25.0%, B 0.0%) "
        "fewer."
    )


@pytest.mark.parametrize(
    ("of_a", "of_b", "begin"),
    [
        ([0.5, 1.0], [0.0, 1.0], "Here A dominates B: "),
        ([0.0, 1.0], [0.5, 0.5], "Neither dominates: at or below 0.5 (A 50.0%, B 100.0%) B has more"),
        ([0.0, 1.0], [1.0, 0.0], "Both have the same"),
        ([], [1.0], "A side has no score"),
    ],
)
def test_every_kind_of_dominance_has_its_sentence(of_a, of_b, begin):
    assert dominance_sentence(pair_distributions(of_a, of_b)).startswith(begin)

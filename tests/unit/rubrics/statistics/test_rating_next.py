"""Which outputs to rate next: each score in its share, by chance within it."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.rating_estimates import rate_next

SCORES = np.repeat([0.0, 0.5, 1.0], [20, 30, 50])
NOBODY = np.zeros(100, dtype=bool)
ONE_GROUP = np.zeros(100)


def shares_of(places):
    return [int((SCORES[places] == score).sum()) for score in (0.0, 0.5, 1.0)]


@pytest.mark.parametrize(("count", "shares"), [(10, [2, 3, 5]), (20, [4, 6, 10]), (50, [10, 15, 25])])
def test_each_score_has_its_share_in_every_first_part(count, shares):
    places = rate_next(SCORES, NOBODY, ONE_GROUP, 60)
    assert shares_of(places[:count]) == shares


def test_what_is_rated_already_counts():
    # 10 of the highest are rated: of 20 in all 4, 6 and 10 are wanted
    is_rated = NOBODY.copy()
    is_rated[-10:] = True
    assert shares_of(rate_next(SCORES, is_rated, ONE_GROUP, 10)) == [4, 6, 0]


def test_no_output_comes_twice_or_again():
    is_rated = NOBODY.copy()
    is_rated[::2] = True
    places = rate_next(SCORES, is_rated, ONE_GROUP, 1_000)
    assert sorted(places) == [*range(1, 100, 2)]


def test_each_group_has_its_share():
    groups = np.tile(["a", "b", "b", "b"], 25)
    places = rate_next(np.ones(100), NOBODY, groups, 40)
    assert [(groups[places] == name).sum() for name in ("a", "b")] == [10, 30]


def test_many_different_scores_are_put_in_steps():
    scores = np.random.default_rng(1).random(1_000)
    places = rate_next(scores, np.zeros(1_000, dtype=bool), np.zeros(1_000), 100)
    assert np.histogram(scores[places], np.quantile(scores, np.linspace(0, 1, 11)))[0].tolist() == [10] * 10


def test_the_same_seed_names_the_same_outputs():
    first, again, other = (rate_next(SCORES, NOBODY, ONE_GROUP, 10, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("scores", "count"), [(SCORES, 0), (np.array([]), 5)], ids=["none wanted", "none there"])
def test_nothing_is_named_where_nothing_is_to_be(scores, count):
    assert rate_next(scores, np.zeros(scores.size, dtype=bool), np.zeros(scores.size), count) == []

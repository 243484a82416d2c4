"""The parts of a mean difference: worked by hand, adding up whatever is scored, turning with the sides."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.statistics.decomposition import Groups, PairedScores, PairedVerdicts, decompose, uniform

LEVELS = st.sampled_from([0.0, 0.5, 1.0])
GAPPED = st.one_of(st.none(), LEVELS)


def table(weights: list[float], of_a: list[list[float | None]], of_b: list[list[float | None]]) -> PairedScores:
    """Scores of pairs, (pair, criterion) each."""
    pairs = np.arange(len(of_a))
    sides = [np.array(side, dtype=np.float64).reshape(len(of_a), len(weights)) for side in (of_a, of_b)]
    criteria = (
        PairedVerdicts(pairs, np.full(pairs.size, weight), *(side[:, place] for side in sides))
        for place, weight in enumerate(weights)
    )
    return PairedScores(tuple(criteria), pairs.size)


def overall(weights: list[float], rows: list[list[float | None]], *, is_skipped: bool) -> np.ndarray:
    """The overall scores, worked out one by one."""
    scores = []
    for row in rows:
        known = [(weight, score) for weight, score in zip(weights, row, strict=True) if score is not None]
        base = sum(max(weight, 0) for weight in ([weight for weight, _ in known] if is_skipped else weights))
        scores.append(sum(weight * score for weight, score in known) / base if base else np.nan)
    return np.array(scores)


def test_each_part_is_the_weighted_change_over_the_weights():
    # weights 3 and 1: (0.75 x 0.5, 0.25 x -1) = 0.375, -0.25
    found = decompose(table([3, 1], [[0.0, 1.0]], [[0.5, 0.0]]), np.array([0.125]))
    assert found.parts.tolist() == [0.375, -0.25]
    assert (found.difference, found.remainder) == (0.125, 0.0)


def test_uniform_weights_count_each_criterion_alike():
    found = decompose(uniform(table([3, 1], [[0.0, 1.0]], [[0.5, 0.0]])), np.array([-0.25]))
    assert found.parts.tolist() == [0.25, -0.5]


def test_a_penalty_that_is_met_more_often_takes_away():
    # points 4 and -2: the penalty's part is -2 x 1 / 4
    found = decompose(table([4, -2], [[1.0, 0.0]], [[1.0, 1.0]]), np.array([-0.5]))
    assert found.parts.tolist() == [0.0, -0.5]


def test_what_a_gap_does_is_the_remainder():
    # B lacks the second: skipped, its score is 1 / 1, not a gain of any criterion
    found = decompose(table([1, 1], [[1.0, 0.0]], [[1.0, None]]), np.array([0.5]), is_skipped=True)
    assert (found.parts.tolist(), found.remainder) == ([0.0, 0.0], 0.5)


def test_an_optional_verdict_that_both_lack_leaves_the_others_the_whole_weight():
    # the second pair has it on both sides: (1 + 1/2) / 2 of the first criterion, -1/4 of the second
    first, second = table([1, 1], [[0.0, None], [0.0, 1.0]], [[1.0, None], [1.0, 0.5]]).criteria
    scores = PairedScores((first, replace(second, is_required=False)), 2)
    found = decompose(scores, np.array([1.0, 0.25]))
    assert (found.parts.tolist(), found.remainder) == ([0.75, -0.125], 0.0)


# The whole holds a category of weight 2 and the third criterion; the category holds the others and one of its own kind.
GROUPS = Groups(parents=np.array([0, 0, 1]), weights=np.array([0.0, 2.0, 3.0]))
PLACES = (1, 1, 0, 2)  # the group of each of four criteria


def grouped(weights: list[float], of_a: list[list[float | None]], of_b: list[list[float | None]]) -> PairedScores:
    found = zip(table(weights, of_a, of_b).criteria, PLACES, strict=True)
    return PairedScores(tuple(replace(each, group=group) for each, group in found), len(of_a), GROUPS)


def test_a_gap_that_is_skipped_counts_within_its_category():
    # a of the category {a: 3, b: 1, d's group: 3} of weight 2 beside c: 1; b and d are skipped, so a is 2 of 3
    scores = grouped([3, 1, 1, 1], [[1.0, None, 0.0, None]], [[0.0, None, 0.0, None]])
    found = decompose(scores, np.array([-2 / 3]), is_skipped=True)
    assert found.parts.tolist() == [pytest.approx(-2 / 3), 0.0, 0.0, 0.0]
    assert found.remainder == 0.0


def test_a_category_without_a_score_weighs_nothing():
    scores = grouped([3, 1, 1, 1], [[None, None, 0.0, None]], [[None, None, 1.0, None]])
    assert decompose(scores, np.array([1.0]), is_skipped=True).parts[2] == pytest.approx(1.0)


def test_all_of_a_tree_is_the_product_of_its_shares():
    # d: 3/7 of the category, that is 2/3 of the whole
    scores = grouped([3, 1, 1, 1], [[0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 1.0]])
    assert decompose(scores, np.array([2 / 7]), is_skipped=True).parts[3] == pytest.approx(2 / 7)


def test_a_penalty_within_a_category_takes_its_share():
    # {a: 3, b: -1} of weight 2 beside c: 1; b is met: -1/3 of 2/3
    scores = grouped([3, -1, 1, 1], [[1.0, 0.0, 1.0, None]], [[1.0, 1.0, 1.0, None]])
    assert decompose(scores, np.array([-2 / 9]), is_skipped=True).parts[1] == pytest.approx(-2 / 9)


def test_without_pairs_nothing_is_known():
    assert np.isnan(decompose(table([1.0], [], []), np.empty(0)).difference)


@given(
    st.lists(st.sampled_from([-2.0, 0.5, 1.0, 3.0]), min_size=2, max_size=4).filter(lambda found: max(found) > 0),
    st.data(),
)
def test_parts_add_up_and_nothing_is_left_over_where_all_is_scored(weights, data):
    rows = st.lists(st.lists(LEVELS, min_size=len(weights), max_size=len(weights)), min_size=3, max_size=3)
    of_a, of_b = data.draw(rows), data.draw(rows)
    change = overall(weights, of_b, is_skipped=False) - overall(weights, of_a, is_skipped=False)
    found = decompose(table(weights, of_a, of_b), change)
    assert found.remainder == 0.0
    assert found.parts.sum() == pytest.approx(change.mean(), abs=1e-12)


@given(st.booleans(), st.data())
def test_parts_and_remainder_add_up_and_turn_with_the_sides_whatever_is_missing(is_skipped, data):
    weights = [1.0, 2.0, 1.0]
    rows = st.lists(st.tuples(LEVELS, GAPPED, GAPPED).map(list), min_size=3, max_size=3)
    sides = data.draw(rows), data.draw(rows)
    of_a, of_b = (overall(weights, side, is_skipped=is_skipped) for side in sides)
    found = decompose(table(weights, *sides), of_b - of_a, is_skipped=is_skipped)
    assert found.parts.sum() + found.remainder == pytest.approx((of_b - of_a).mean(), abs=1e-12)
    turned = decompose(table(weights, *reversed(sides)), of_a - of_b, is_skipped=is_skipped)
    assert turned.parts == pytest.approx(-found.parts)

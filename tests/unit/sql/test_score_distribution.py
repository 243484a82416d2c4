"""score_distribution: the empirical distribution function of output scores."""

import pytest

TONE = {"tone": {}}


def distribution(connection):
    return connection.execute("select score, n, share from score_distribution order by score").fetchall()


def of_tone(*scores):
    return {f"o{index}": {"tone": score} for index, score in enumerate(scores)}


def test_the_share_is_of_scores_at_or_below(build):
    # of four: one at 0.2, three at or below 0.5, four at or below 1
    found = distribution(build(TONE, of_tone(0.5, 0.2, 1.0, 0.5)))
    assert found == [(0.2, 1, 0.25), (0.5, 2, 0.75), (1.0, 1, 1.0)]


def test_undetermined_scores_are_not_in_the_distribution(build):
    assert distribution(build(TONE, of_tone(0.5, None))) == [(0.5, 1, 1.0)]


def test_without_scores_there_are_no_rows(build):
    assert distribution(build(TONE, of_tone(None))) == []


def test_equal_verdicts_give_one_score_in_any_order_of_summation(build):
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit
    criteria = {name: {"weight": weight} for name, weight in {"a": 0.1, "b": 0.2, "c": 0.3}.items()}
    scores = {"o": {"a": 1.0, "b": 1.0, "c": 1.0}, "p": {"c": 1.0, "b": 1.0, "a": 1.0}}
    assert distribution(build(criteria, scores)) == [(1.0, 2, 1.0)]


def test_models_and_checkpoints_have_separate_distributions(build):
    connection = build(TONE, of_tone(0.1, 0.3), outputs={"o0": {"checkpoint": "s1"}})
    found = connection.execute("select checkpoint, score, share from score_distribution order by score").fetchall()
    assert found == [("s1", 0.1, 1.0), (None, 0.3, 1.0)]


@pytest.mark.parametrize(("count", "expected"), [(1000, 1000), (1001, 101)])
def test_more_than_a_thousand_scores_are_rounded_to_three_digits(build, count, expected):
    # 1,001 scores from 0 to 0.1: in steps of 0.0001, so 0.000 to 0.100 in steps of 0.001 is 101
    assert len(distribution(build(TONE, of_tone(*[index / 10_000 for index in range(count)])))) == expected

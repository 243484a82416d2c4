"""weak_spots: slices of metadata with lower scores than the other outputs."""

import json
from itertools import combinations

import numpy as np
import pytest

from gradebook.rubrics.statistics.means import score_interval
from tests.support.nightly import matrix

TONE = {"tone": {"weight": 3.0}, "form": {"weight": 1.0}}
POOR = (0.1, 0.2, 0.3, 0.4, 0.5)
GOOD = (0.9, 0.8, 0.9, 0.8, 0.7, 0.7)


def built(build, topics=(POOR, GOOD), criteria=TONE, metadata=None, **others):
    """Run with the topics `t0`, `t1`, ... and the given scores on tone."""
    scores = {f"t{topic}-{index}": score for topic, given in enumerate(topics) for index, score in enumerate(given)}
    told = metadata or (lambda name: {"topic": name.partition("-")[0]})
    outputs = {name: {"metadata": json.dumps(told(name))} for name in scores}
    rows = {name: {"tone": score, **dict.fromkeys(list(criteria)[1:], 0.5)} for name, score in scores.items()}
    return build(criteria, rows, outputs=outputs, **others)


def spots(connection, columns):
    return connection.execute(f"select {columns} from weak_spots order by gain desc, slice_value").fetchall()


def test_a_slice_with_lower_scores_is_compared_with_the_rest(build):
    # 1.5 / 5 = 0.3; 4.8 / 6 = 0.8; the rest is higher by 0.5
    assert spots(built(build), "criterion_id, slice_key, slice_value, n, rest_n, mean, rest_mean, lift") == [
        ("tone", "topic", "t0", 5, 6, pytest.approx(0.3), pytest.approx(0.8), pytest.approx(-0.5))
    ]


def test_the_difference_is_shrunk_by_the_variance_that_chance_explains(build):
    # Of two slices, one 0.5 below and one 0.5 above: the variance is 0.5^2 - SE^2, the estimate 0.5 - SE^2 / 0.5.
    # SE^2 of a random part is the variance of all 11 scores, (1.1 + 2.02) / 11, on 10 degrees of freedom.
    variance = np.var([*POOR, *GOOD], ddof=1) * (1 / 5 + 1 / 6)
    expected = 0.5 - variance / 0.5
    connection = built(build)
    assert spots(connection, "-shrunk_lift") == [(pytest.approx(expected),)]
    # The gain: weight 3 / 4, 5 of 11 outputs.
    assert spots(connection, "gain") == [(pytest.approx(0.75 * 5 / 11 * expected),)]


def test_p_is_of_the_slice_as_a_random_part_adjusted_for_the_slices_searched(build):
    (found,) = spots(built(build), "p, p_adjusted, searched_count")
    drawn = [np.mean(part) for part in combinations([*POOR, *GOOD], 5)]
    exact = np.mean(np.array(drawn) <= np.mean(POOR) + 1e-9)  # 1 of 462 draws
    assert found == pytest.approx((exact, 2 * found[0], 2), abs=0.001)


def test_only_a_slice_that_is_worse_stands_out_among_many(build):
    rng = np.random.default_rng(3)
    topics = rng.choice([0.0, 0.5, 1.0], (20, 15), p=[0.05, 0.15, 0.8])
    topics[7] = rng.choice([0.0, 0.5, 1.0], 15, p=[0.5, 0.2, 0.3])
    connection = built(build, [topic.tolist() for topic in topics])
    clear = connection.execute("select slice_value from weak_spots where p_adjusted <= 0.05").fetchall()
    ((count, searched),) = connection.execute("select count(*), any_value(searched_count) from weak_spots").fetchall()
    assert (clear, count > 1, searched) == ([("t7",)], True, 20)


def test_the_interval_allows_for_the_slices_searched(build):
    expected = score_interval(POOR, level=0.975)  # one of two was found: 1 - 0.05 * 1 / 2
    assert spots(built(build), "ci_low, ci_high") == [pytest.approx((expected.low, expected.high), abs=1e-8)]


def test_the_examples_have_the_lowest_scores(build):
    assert spots(built(build), "example_ids") == [(["t0-0", "t0-1", "t0-2"],)]


@pytest.mark.nightly
def test_a_penalty_is_weak_in_slices_that_meet_it_more_often(build):
    criteria = {"tone": {"weight": -1.0}, "form": {"weight": 1.0}}
    assert spots(built(build, criteria=criteria), "slice_value, gain > 0, example_ids[1]") == [("t1", True, "t1-0")]


@pytest.mark.nightly
def test_a_gate_has_a_loss_and_no_gain(build):
    criteria = {"tone": {"is_gate": True}, "form": {"weight": 1.0}}
    assert spots(built(build, criteria=criteria), "slice_value, gain") == [("t0", None)]


@pytest.mark.parametrize(
    "metadata",
    [
        lambda _: {"topic": "same"},
        lambda name: {"id": name},
        *matrix([lambda name: {"topic": {"deep": name[:2]}}, lambda name: {"topic": name[:2] * 60}, lambda _: {}]),
    ],
    ids=["one value", "a value an output", "an object", "a long text", "nothing"],
)
def test_metadata_without_slices_gives_no_weak_spots(build, metadata):
    assert spots(built(build, metadata=metadata), "slice_key") == []


@pytest.mark.nightly
def test_fewer_than_five_outputs_are_no_slice(build):
    assert spots(built(build, (POOR[:4], GOOD)), "slice_value") == []


@pytest.mark.nightly
def test_outputs_of_one_case_count_as_one_cluster(build):
    scores = {f"{topic}{index}": {"tone": 1.0 if topic == "b" else 0.1 * index} for topic in "ab" for index in range(6)}
    outputs = {
        name: {"metadata": json.dumps({"topic": name[0]}), "case_id": f"{name[0]}{int(name[1]) // 2}"}
        for name in scores
    }
    connection = build({"tone": {}}, scores, outputs=outputs)
    expected = score_interval([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 2, 2], level=0.975)
    assert spots(connection, "cluster_count, ci_low, ci_high") == [
        pytest.approx((3, expected.low, expected.high), abs=1e-8)
    ]


@pytest.mark.nightly
def test_numbers_and_booleans_are_shown_as_text(build):
    connection = built(build, metadata=lambda name: {"easy": name.startswith("t1"), "turn": int(name[1])})
    assert sorted(spots(connection, "slice_key, slice_value")) == [("easy", "false"), ("turn", "0")]


def test_a_slice_is_compared_with_other_outputs_of_the_same_model(build):
    rows = {f"{model}{index}": {"tone": 0.2 if model == "m" else 0.9} for model in "mk" for index in range(12)}
    outputs = {
        name: {"model": name[0], "metadata": json.dumps({"topic": "x" if int(name[1:]) < 6 else "y"})} for name in rows
    }
    assert spots(build({"tone": {}}, rows, outputs=outputs), "model") == []

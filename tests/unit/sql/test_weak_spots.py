"""weak_spots: slices of metadata with lower scores than the other outputs."""

import json

import pytest

from gradebook.rubrics.statistics.score_intervals import score_interval

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


def test_the_gain_is_the_possible_rise_of_the_overall_mean(build):
    # weight 3 / 4, 5 of 11 outputs, 0.5 each: 0.1704545
    connection = built(build)
    assert spots(connection, "gain") == [(pytest.approx(0.1704545),)]
    ((mean,),) = connection.execute("select mean from run_scores").fetchall()
    # With 0.8 instead of 0.3 the first five would bring the mean from 0.5545455 to 0.725
    assert mean + 0.1704545 == pytest.approx(0.725)


def test_the_interval_is_that_of_the_slice(build):
    expected = score_interval(POOR)
    assert spots(built(build), "ci_low, ci_high") == [pytest.approx((expected.low, expected.high), abs=1e-8)]


def test_the_examples_have_the_lowest_scores(build):
    assert spots(built(build), "example_ids") == [(["t0-0", "t0-1", "t0-2"],)]


def test_a_penalty_is_weak_in_slices_that_meet_it_more_often(build):
    criteria = {"tone": {"weight": -1.0}, "form": {"weight": 1.0}}
    assert spots(built(build, criteria=criteria), "slice_value, gain > 0, example_ids[1]") == [("t1", True, "t1-0")]


def test_a_gate_has_a_loss_and_no_gain(build):
    criteria = {"tone": {"is_gate": True}, "form": {"weight": 1.0}}
    assert spots(built(build, criteria=criteria), "slice_value, gain") == [("t0", None)]


@pytest.mark.parametrize(
    "metadata",
    [
        lambda _: {"topic": "same"},
        lambda name: {"id": name},
        lambda name: {"topic": {"deep": name[:2]}},
        lambda name: {"topic": name[:2] * 60},
        lambda _: {},
    ],
    ids=["one value", "a value an output", "an object", "a long text", "nothing"],
)
def test_metadata_without_slices_gives_no_weak_spots(build, metadata):
    assert spots(built(build, metadata=metadata), "slice_key") == []


def test_fewer_than_five_outputs_are_no_slice(build):
    assert spots(built(build, (POOR[:4], GOOD)), "slice_value") == []


def test_outputs_of_one_case_count_as_one_cluster(build):
    scores = {f"{topic}{index}": {"tone": 1.0 if topic == "b" else 0.1 * index} for topic in "ab" for index in range(6)}
    outputs = {
        name: {"metadata": json.dumps({"topic": name[0]}), "case_id": f"{name[0]}{int(name[1]) // 2}"}
        for name in scores
    }
    connection = build({"tone": {}}, scores, outputs=outputs)
    expected = score_interval([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 2, 2])
    assert spots(connection, "cluster_count, ci_low, ci_high") == [
        pytest.approx((3, expected.low, expected.high), abs=1e-8)
    ]


def test_numbers_and_booleans_are_shown_as_text(build):
    connection = built(build, metadata=lambda name: {"easy": name.startswith("t1"), "turn": int(name[1])})
    assert sorted(spots(connection, "slice_key, slice_value")) == [("easy", "false"), ("turn", "0")]


def test_a_slice_is_compared_with_other_outputs_of_the_same_model(build):
    rows = {f"{model}{index}": {"tone": 0.2 if model == "m" else 0.9} for model in "mk" for index in range(12)}
    outputs = {
        name: {"model": name[0], "metadata": json.dumps({"topic": "x" if int(name[1:]) < 6 else "y"})} for name in rows
    }
    assert spots(build({"tone": {}}, rows, outputs=outputs), "model") == []

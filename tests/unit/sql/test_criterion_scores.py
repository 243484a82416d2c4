"""criterion_scores: scores of a criterion over the outputs of a model and checkpoint."""

import pytest

from gradebook.rubrics.statistics.means import score_interval

TONE = {"tone": {"threshold": 0.5}}


def column(connection, name, order="criterion_id"):
    return [row[0] for row in connection.execute(f"select {name} from criterion_scores order by {order}").fetchall()]


def row(connection, names):
    return connection.execute(f"select {names} from criterion_scores").fetchone()


def of_tone(*scores):
    return {f"o{index}": {"tone": score} for index, score in enumerate(scores)}


def test_the_interval_equals_that_of_the_library(build):
    # mean 2.0 / 5 = 0.4; sd sqrt((0.04 + 0.04) / 4) = 0.1414214
    expected = score_interval([0.2, 0.4, 0.6, 0.4, 0.4])
    found = row(build(TONE, of_tone(0.2, 0.4, 0.6, 0.4, 0.4)), "mean, sd, ci_low, ci_high")
    assert found == pytest.approx((0.4, 0.1414214, expected.low, expected.high), abs=1e-7)


@pytest.mark.nightly
def test_one_score_has_a_mean_and_no_spread(build):
    assert row(build(TONE, of_tone(0.6)), "n, mean, sd, ci_low, ci_high") == (1, 0.6, None, None, None)


@pytest.mark.nightly
def test_no_score_has_no_mean(build):
    found = row(
        build(TONE, of_tone(None, None)), "n, output_count, mean, sd, ci_low, pass_rate, coverage_rate, contribution"
    )
    assert found == (0, 2, None, None, None, None, 0.0, None)


@pytest.mark.nightly
def test_equal_scores_may_hide_as_many_others_as_an_exact_interval_allows(build):
    # 0.025 ** (1 / 3) = 0.2924018: 0.7 x 0.2924018 = 0.2046812; 1 - 0.3 x 0.2924018 = 0.9122795
    found = row(build(TONE, of_tone(0.7, 0.7, 0.7)), "sd, ci_low, ci_high")
    assert found == pytest.approx((0.0, 0.2046812, 0.9122795), abs=1e-7)


@pytest.mark.nightly
def test_scores_of_only_0_and_1_have_the_exact_interval_of_a_rate(build):
    # Clopper and Pearson, 1 of 4: 1 - 0.975 ** (1 / 4) = 0.0063; 0.8059
    assert row(build(TONE, of_tone(1.0, 0.0, 0.0, 0.0)), "ci_low, ci_high") == pytest.approx((0.0063, 0.8059), abs=1e-4)


@pytest.mark.nightly
def test_a_run_without_outputs_has_no_rows(build):
    assert column(build(TONE, {}), "n") == []


def test_missing_scores_are_left_out_of_the_mean_and_lower_the_coverage(build):
    # (0.2 + 0.6) / 2 = 0.4; 2 of 4 are scored, one of the others has no row
    connection = build(TONE, {**of_tone(0.2, 0.6, None), "last": {}})
    assert row(connection, "n, output_count, mean, coverage_rate") == (2, 4, pytest.approx(0.4), 0.5)


def test_the_pass_rate_counts_scores_at_the_threshold(build):
    # 0.5 and 1 of the three scored meet 0.5
    assert row(build(TONE, of_tone(0.4, 0.5, 1.0, None)), "pass_rate") == (pytest.approx(2 / 3),)


def test_the_pass_rate_has_the_exact_interval(build):
    # 2 of 3: 0.0943..0.9916, which is 0.975 ** (1 / 3)
    found = row(build(TONE, of_tone(0.4, 0.5, 1.0, None)), "pass_low, pass_high")
    assert found == pytest.approx((0.0943, 0.9916), abs=1e-4)


def test_a_gate_passes_at_its_own_mark(build):
    connection = build(
        {"safe": {"weight": 0.0, "is_gate": True, "gate_threshold": 0.5}}, {"o": {"safe": 0.5}, "p": {"safe": 0.4}}
    )
    assert row(connection, "pass_rate") == (0.5,)


@pytest.mark.nightly
def test_a_criterion_without_a_threshold_has_no_pass_rate(build):
    assert row(build({"tone": {}}, of_tone(1.0)), "pass_rate") == (None,)


def test_weights_are_shares_and_a_gate_has_none(build):
    # 3 / (3 + 1), 1 / (3 + 1)
    criteria = {"a": {"weight": 3.0}, "b": {"weight": 1.0}, "c": {"weight": 0.0, "is_gate": True}}
    assert column(build(criteria, {"o": {"a": 1.0, "b": 1.0, "c": 1.0}}), "weight") == [0.75, 0.25, None]


def test_contributions_are_weight_times_mean(build):
    # 0.75 x 0.8 = 0.6, 0.25 x 0.4 = 0.1; together the output's 0.7
    criteria = {"a": {"weight": 3.0}, "b": {"weight": 1.0}}
    assert column(build(criteria, {"o": {"a": 0.8, "b": 0.4}}), "contribution") == pytest.approx([0.6, 0.1])


def test_a_penalty_has_a_negative_share_of_the_positive_weights(build):
    criteria = {"a": {"weight": 2.0}, "b": {"weight": -1.0}}
    assert column(build(criteria, {"o": {"a": 1.0, "b": 1.0}}), "contribution") == [1.0, -0.5]


@pytest.mark.nightly
def test_a_criterion_without_a_category_has_the_category_none(build):
    criteria = {"a": {"category": "voice"}, "b": {}}
    assert column(build(criteria, {"o": {"a": 1.0, "b": 1.0}}), "category") == ["voice", "(none)"]


def test_models_and_checkpoints_are_separate_groups_including_no_checkpoint(build):
    outputs = {"a": {"checkpoint": "s1"}, "b": {"checkpoint": None}, "c": {"checkpoint": None}, "d": {"model": "n"}}
    connection = build(
        TONE, {"a": {"tone": 0.1}, "b": {"tone": 0.2}, "c": {"tone": 0.4}, "d": {"tone": 0.9}}, outputs=outputs
    )
    found = connection.execute("select model, checkpoint, n, mean from criterion_scores order by mean").fetchall()
    # (0.2 + 0.4) / 2 = 0.3
    assert found == [("m", "s1", 1, 0.1), ("m", None, 2, pytest.approx(0.3)), ("n", None, 1, 0.9)]


def test_a_criterion_missing_for_one_model_has_a_row_for_it(build):
    connection = build(
        {"tone": {}, "facts": {}}, {"o": {"tone": 1.0, "facts": 1.0}, "p": {"tone": 1.0}}, outputs={"p": {"model": "n"}}
    )
    found = connection.execute("select model, criterion_id, n from criterion_scores order by all").fetchall()
    assert found == [("m", "facts", 1), ("m", "tone", 1), ("n", "facts", 0), ("n", "tone", 1)]

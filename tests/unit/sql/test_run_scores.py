"""run_scores: overall figures of a model and checkpoint."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.means import score_interval
from tests.support.nightly import matrix

TONE = {"tone": {}}
PENALTY = {"met": {"weight": 1.0}, "rude": {"weight": -1.0}}


def row(connection, names):
    return connection.execute(f"select {names} from run_scores").fetchone()


def of_tone(*scores):
    return {f"o{index}": {"tone": score} for index, score in enumerate(scores)}


def cost_of(connection):
    return row(connection, "cost_usd")[0]


def test_the_mean_and_its_interval(build):
    # 0.2, 0.4, 0.4, 0.4, 0.6: sd sqrt(0.08 / 4) = 0.1414214
    expected = score_interval([0.2, 0.4, 0.4, 0.4, 0.6])
    found = row(build(TONE, of_tone(0.2, 0.4, 0.4, 0.4, 0.6)), "mean, sd, ci_low, ci_high")
    assert found == pytest.approx((0.4, 0.1414214, expected.low, expected.high), abs=1e-7)


def test_an_undetermined_score_is_not_in_the_mean_and_lowers_the_coverage(build):
    # 3 of 4 scored: (0.2 + 0.4 + 0.6) / 3 = 0.4
    found = row(build(TONE, of_tone(0.2, 0.4, 0.6, None)), "n, output_count, mean, coverage_rate")
    assert found == (3, 4, pytest.approx(0.4), 0.75)


def test_without_scores_the_mean_is_null_and_not_zero(build):
    assert row(build(TONE, of_tone(None)), "n, mean, sd, ci_low, uniform_mean") == (0, None, None, None, None)


@pytest.mark.nightly
def test_one_score_has_no_spread(build):
    assert row(build(TONE, of_tone(0.5)), "n, mean, sd, ci_low, ci_high") == (1, 0.5, None, None, None)


def test_equal_scores_have_no_spread_but_an_interval(build):
    # 0.025 ** (1 / 3) = 0.2924018: 0.3 x 0.2924018 = 0.0877205; 1 - 0.7 x 0.2924018 = 0.7953188
    found = row(build(TONE, of_tone(0.3, 0.3, 0.3)), "mean, sd, ci_low, ci_high")
    assert found == pytest.approx((0.3, 0.0, 0.0877205, 0.7953188), abs=1e-7)


def test_a_mean_below_zero_is_clipped_to_zero(build):
    # (0 - 1) / 1 = -1 each
    connection = build(PENALTY, {"o": {"met": 0.0, "rude": 1.0}, "p": {"met": 0.0, "rude": 1.0}})
    # Two equal outputs at the lowest score, -1: the upper end is -1 + 2 x (1 - 0.025 ** (1 / 2)) = 0.6837722
    assert row(connection, "mean, ci_low, ci_high, uniform_mean") == pytest.approx((0.0, 0.0, 0.6837722, 0.0))


def test_the_mean_is_clipped_and_not_each_score(build):
    # -1 and 1: mean 0, not 0.5
    connection = build(PENALTY, {"o": {"met": 0.0, "rude": 1.0}, "p": {"met": 1.0, "rude": 0.0}})
    assert row(connection, "mean") == (0.0,)


def test_the_pass_rate_is_over_outputs_with_a_known_pass_or_fail(build):
    # 0.9 passes, 0.1 does not, the third is unknown: 1 of 2
    assert row(build(TONE, of_tone(0.9, 0.1, None), pass_threshold=0.5), "pass_rate") == (0.5,)


@pytest.mark.nightly
def test_the_pass_rate_is_null_if_nothing_is_known(build):
    assert row(build(TONE, of_tone(None), pass_threshold=0.5), "pass_rate") == (None,)


def test_the_gate_failure_rate_is_over_outputs_with_known_gates(build):
    # one of four fails, one is unknown: 1 / 3
    criteria = {"safe": {"weight": 0.0, "is_gate": True}}
    scores = {f"o{index}": {"safe": score} for index, score in enumerate([0.0, 1.0, 1.0, None])}
    assert row(build(criteria, scores), "gate_failure_rate, mean, n") == (pytest.approx(1 / 3), None, 0)
    assert row(build(TONE, of_tone(0.9)), "gate_failure_rate") == (None,)  # no gate


def test_no_failed_gate_has_an_exact_upper_bound(build):
    # 0 of 20: 1 - 0.025 ** (1 / 20) = 0.1684335
    criteria = {"safe": {"weight": 0.0, "is_gate": True}}
    connection = build(criteria, {f"o{index}": {"safe": 1.0} for index in range(20)})
    found = row(connection, "gate_failure_rate, gate_failure_low, gate_failure_high")
    assert found == pytest.approx((0.0, 0.0, 0.1684335), abs=1e-7)


@pytest.mark.nightly
def test_failed_gates_of_one_case_count_as_one(build):
    criteria = {"safe": {"weight": 0.0, "is_gate": True}}
    outputs = {f"o{index}": {"case_id": f"c{index // 2}"} for index in range(40)}
    connection = build(criteria, {f"o{index}": {"safe": 1.0} for index in range(40)}, outputs=outputs)
    assert row(connection, "gate_failure_high") == (pytest.approx(0.1684335, abs=1e-7),)


def test_without_a_gate_its_failures_have_no_bound(build):
    assert row(build(TONE, of_tone(0.1, 0.3)), "gate_failure_low, gate_failure_high") == (None, None)


@pytest.mark.nightly
def test_no_checkpoint_is_a_group_of_its_own(build):
    connection = build(TONE, of_tone(0.1, 0.3), outputs={"o0": {"checkpoint": "s1"}})
    found = connection.execute("select checkpoint, n, mean from run_scores order by mean").fetchall()
    assert found == [("s1", 1, 0.1), (None, 1, 0.3)]


def judgment(output_id, cost_usd=0.25):
    return {"output_id": output_id, "criterion_id": "tone", "cost_usd": cost_usd}


def test_the_cost_is_the_amount_that_this_run_paid_for_these_outputs(build):
    # 0.25 + 0.5
    connection = build(TONE, of_tone(0.1, 0.3), judgments=(judgment("o0"), judgment("o1", 0.5)))
    assert cost_of(connection) == 0.75


@pytest.mark.nightly
def test_a_run_without_requests_costs_nothing(build):
    assert cost_of(build(TONE, of_tone(0.1))) == 0.0


def test_one_unknown_price_makes_the_cost_unknown(build):
    assert cost_of(build(TONE, of_tone(0.1, 0.3), judgments=(judgment("o0"), judgment("o1", None)))) is None


@pytest.mark.nightly
def test_an_unknown_price_affects_only_its_own_model(build):
    outputs = {"o0": {"checkpoint": "s1"}}
    connection = build(TONE, of_tone(0.1, 0.3), outputs=outputs, judgments=(judgment("o0", None), judgment("o1")))
    found = connection.execute("select checkpoint, cost_usd from run_scores order by all").fetchall()
    assert found == [("s1", None), (None, 0.25)]


QUANTILES = "p05, p25, p50, p75, p95"


@pytest.mark.parametrize(
    "scores",
    [*matrix([((0.5,),), ((0.0, 1.0),), ((0.0, 0.5, 1.0, 1.0),), ((1 / 3, 2 / 3, 2 / 3),)]), (0.1, None, 0.7)],
)
def test_quantiles_lie_between_neighbours(build, scores):
    known = [score for score in scores if score is not None]
    expected = np.quantile(known, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    assert row(build(TONE, of_tone(*scores)), QUANTILES) == pytest.approx(expected, abs=1e-12)


@pytest.mark.nightly
def test_quantiles_of_scores_with_equal_first_digits_are_the_rounded_value(build):
    scores = (np.random.default_rng(5).random(3_000) ** 3).tolist()
    expected = np.quantile(scores, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    found = build({"tone": {"category": "voice"}}, of_tone(*scores))
    assert row(found, QUANTILES) == pytest.approx(expected, abs=5e-5)
    of_category = found.execute(f"select {QUANTILES} from category_scores where category = 'voice'").fetchone()
    assert of_category == pytest.approx(expected, abs=5e-5)


@pytest.mark.nightly
def test_without_a_score_there_is_no_quantile(build):
    assert row(build(TONE, of_tone(None)), QUANTILES) == (None,) * 5

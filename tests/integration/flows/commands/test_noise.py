"""`gradebook judge noise`: terminal output, JSON, and refused options."""

from pathlib import Path

import numpy as np
import pytest

from gradebook.tasks.comparing.aa_test import DEFAULT_GATES
from gradebook.tasks.lake.connections import connect
from tests.support.replicated_lake import make_rubric, write_replicates
from tests.support.scored_lake import make_lake

RUBRIC = make_rubric("r", {"id": "tone"}, {"id": "facts"})
OUTPUTS = [{"case_id": f"c{place}"} for place in range(40)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run noisy, whose tone (but not facts) differs between replies; run single, with one reply each."""
    found = make_lake(Path(tmp_path_factory.mktemp("lake")))
    tone = np.random.default_rng(1).integers(0, 3, (40, 2)) / 2
    write_replicates(found, "noisy", RUBRIC, OUTPUTS, {"judge": {"tone": tone, "facts": np.ones((40, 2))}})
    with connect(found) as connection:
        connection.execute(
            "insert into judge_noise by name select 'noisy' as run_id, 'm' as model, 'tone' as criterion_id, 40 as n, "
            "0.25 as judge_variance, 0.04 as output_variance, 0.625 as flip_rate"
        )
        connection.execute(
            "insert into stage_costs by name select 'noisy' as run_id, 0.75 as cost_usd, 0.25 as saved_usd"
        )
    write_replicates(found, "single", RUBRIC, OUTPUTS, {"judge": {"tone": tone[:, :1]}})
    return f"--lake=sqlite:{found.address}"


@pytest.fixture
def noise(gradebook, lake):
    return lambda *words: gradebook("judge", "noise", *words, "--draws", "200", lake)


def test_the_terminal_shows_the_outputs_judged_twice_and_how_often_each_default_rule_fires(noise):
    finished = noise("noisy")
    assert (finished.code, finished.err) == (0, "")
    for words in ("the same outputs judged twice", "false alarms of a gate: 200 draws", "2.5%", "19 of 20"):
        assert words in finished.out


def test_the_terminal_describes_each_criterion_s_noise(noise):
    (row,) = [line.split() for line in noise("noisy").out.splitlines() if line.startswith("tone ") and "62.5%" in line]
    assert row[-2] == "0.500"  # sd of replies


def test_the_json_has_each_rule_with_its_rate_and_nominal_rate(noise):
    found = noise("noisy", "--json").json
    assert [rule["rule"] for rule in found["rules"]] == [gate.as_json()["rule"] for gate in DEFAULT_GATES]
    for rule in found["rules"]:
        assert rule["rate_low"] <= rule["rate"] == rule["fired_count"] / 200 <= rule["rate_high"]
        nominal = (
            None if rule["require"] else 0.025
        )  # of a rule that has to be shown, equal sides fail by bad luck alone
        assert (rule["nominal_rate"], rule["nominal_of_each"], rule["unknown_count"]) == (nominal, None, 0)
    assert (found["replicate_count"], found["output_count"], found["left_out_count"]) == (2, 40, 0)


@pytest.mark.nightly
def test_the_gain_of_more_cases_and_replicates_is_shown_with_its_price(noise):
    found = noise("noisy", "--json").json
    (overall,) = [each["variances"] for each in found["variance_components"] if each["scope"] == "overall"]
    own, replicates, cases = found["decision_study"]
    assert own["standard_error"] ** 2 == pytest.approx((overall["case"] + overall["replicate"] / 2) / 40)
    assert replicates["standard_error"] ** 2 == pytest.approx((overall["case"] + overall["replicate"] / 4) / 40)
    assert cases["standard_error"] ** 2 == pytest.approx((overall["case"] + overall["replicate"] / 2) / 140)
    # a dollar for 40 outputs x 2 replies
    assert [each["cost_usd"] for each in (own, replicates, cases)] == pytest.approx([0.0, 1.0, 2.5])
    assert ["m", "100", "cases"] in [line.split()[:3] for line in noise("noisy").out.splitlines()]


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_rates(noise):
    words = ("noisy", "--fail-if", "mean_diff < 0", "--json", "--seed", "7")
    assert noise(*words).json == noise(*words).json


def test_a_rule_that_holds_does_not_fail_the_command(noise):
    finished = noise("noisy", "--fail-if", "worse_rate >= 0", "--fail-if", "worse_rate < 0", "--json")
    assert (finished.code, [rule["rate"] for rule in finished.json["rules"]]) == (0, [1.0, 0.0])


def test_draws_without_an_outcome_are_reported(noise):
    assert "in 200 draws the rule could not be evaluated" in noise("noisy", "--fail-if", "p_mcnemar < 1").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("single",), "write `replicates: 2` into the judge file"),
        (("neither",), "run: found no 'neither' in"),
        (("noisy", "--fail-if", "p < x"), "--fail-if: at character 5"),
        (("noisy", "--draws", "0"), "--draws: found 0, expected 1 to 100,000"),
        (("noisy", "--seed", "-1"), "--seed: found -1, expected 0 or more"),
    ],
)
def test_invalid_options_are_refused(gradebook, lake, words, told):
    finished = gradebook("judge", "noise", *words, lake)
    assert (finished.code, finished.out) == (2, "")
    assert told in finished.err

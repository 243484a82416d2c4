"""Whether models of a run may ship, decided on the ends of intervals or on point estimates."""

import json

import pytest

from tests.support.published_runs import publish
from tests.support.reported_runs import yes_criterion
from tests.support.samples import write_lines

INTERVAL = {"decide": "interval", "max_failure_rate": 0.1}
SAFE = {"id": "safe", "gate": True}


@pytest.fixture
def verdicts(tmp_path):
    """Verdicts on models, of which each answers yes in so many of so many cases; and whether all is met."""

    def call(models, *criteria, samples=1, **rubric):
        rows = [
            {"case_id": f"c{place}", "model": model, "sample_index": sample}
            | {"output": f"{'yes' if place < good else 'no'} {place} {model} {sample}"}
            for model, (good, count) in models.items()
            for place in range(count)
            for sample in range(samples)
        ]
        body = {"id": "r", "version": "1.0.0", "criteria": [yes_criterion(**each) for each in criteria]} | rubric
        (tmp_path / "rubric.json").write_text(json.dumps(body))
        summary = publish(
            write_lines(tmp_path / "outputs.jsonl", rows), tmp_path / "rubric.json", run_id=f"of-{len(body)}"
        )
        return {each.model: each for each in summary.verdict.models}, summary

    return call


def test_a_gate_is_decided_on_the_exact_upper_bound(verdicts):
    models, summary = verdicts({"few": (20, 20), "many": (40, 40), "bad": (39, 40)}, SAFE, **INTERVAL)
    assert {name: each.outcome.value for name, each in models.items()} == {
        "few": "undecided",
        "many": "may ship",
        "bad": "may not ship",
    }
    # 1 - 0.025^(1/20) = 16.8%; 36 cases show 10%
    assert models["few"].reasons == ("20 cases can't rule out 16.8% failing the gate safe (limit 10.0%)",)
    assert models["few"].more_count == 16
    assert models["many"].reasons == ("0 of 40 outputs fail the gate safe (at most 8.8%, limit 10.0%)",)
    assert models["bad"].reasons == ("1 of 40 outputs fails the gate safe (none may)",)
    assert not summary.is_met
    assert summary.verdict.word == "1 of 3 may ship"
    assert summary.verdict.lines[0] == "many may ship; few is undecided; bad may not ship."
    assert summary.verdict.sentence == (
        "many may ship at alpha 0.025; undecided whether few may ship: 20 cases can't rule out 16.8% failing the gate "
        "safe (limit 10.0%); about 16 more cases like these would decide; bad may not: 1 of 40 outputs fails the gate "
        "safe (none may)."
    )


def test_a_gate_that_states_a_rate_tolerates_failures_up_to_it(verdicts):
    tolerant = SAFE | {"max_failure_rate": 0.2}
    models, summary = verdicts({"good": (38, 40), "open": (36, 40), "bad": (20, 40)}, tolerant, decide="interval")
    assert [models[name].outcome.value for name in ("good", "open", "bad")] == ["may ship", "undecided", "may not ship"]
    assert models["bad"].reasons == ("20 of 40 outputs fail the gate safe (at least 33.8%, limit 20.0%)",)
    assert [str(each) for each in summary.unmet] == ["bad: 20 of 40 outputs fail the gate safe, expected at most 20.0%"]


def test_undecided_at_the_interval_is_met_at_the_point_and_so_no_failure(verdicts):
    models, summary = verdicts({"m": (8, 10)}, {"id": "kind"}, pass_threshold=0.7, decide="interval")
    assert models["m"].outcome.value == "undecided"
    assert summary.is_met
    assert summary.verdict.is_good is None
    # Clopper and Pearson, 8 of 10
    assert models["m"].reasons == ("10 cases can't rule out a mean of 0.444 (needs 0.7)",)


def test_outputs_of_one_case_are_worth_fewer_trials(verdicts):
    models, _ = verdicts({"m": (20, 20)}, SAFE, samples=3, **INTERVAL)
    assert models["m"].reasons == ("20 cases can't rule out 16.8% failing the gate safe (limit 10.0%)",)
    assert models["m"].more_count == 16


@pytest.mark.parametrize(("alpha", "outcome"), [(0.025, "undecided"), (0.1, "may ship")])
def test_alpha_decides_how_sure_a_model_has_to_be(verdicts, alpha, outcome):
    # 23 cases: 1 - 0.025^(1/23) = 14.8%, 1 - 0.1^(1/23) = 9.5%
    models, summary = verdicts({"m": (23, 23)}, SAFE, alpha=alpha, **INTERVAL)
    assert models["m"].outcome.value == outcome
    assert f"at alpha {alpha:g}" in summary.verdict.sentence


def test_a_point_decision_says_so_and_names_the_line_that_changes_it(verdicts):
    models, summary = verdicts({"m": (20, 20)}, SAFE)
    assert models["m"].outcome.value == "may ship"
    assert summary.verdict.sentence == "m may ship by point estimates: every gate and threshold is met."
    assert any("`decide: interval`" in fact.sentence for fact in summary.verdict.facts)


def test_a_mean_under_a_threshold_that_is_not_required_is_named(verdicts):
    kind = {"id": "kind", "threshold": 0.9}
    _, summary = verdicts({"m": (15, 20)}, kind, pass_threshold=0.5)
    assert summary.verdict.sentence == (
        "m may ship by point estimates: every gate and the pass_threshold is met; under a criterion's own threshold, "
        "which the rubric does not require: kind 0.750 (needs 0.9)."
    )
    required, summary = verdicts({"m": (15, 20)}, kind, pass_threshold=0.5, require_thresholds=True, version="2.0.0")
    assert not summary.is_met
    assert required["m"].reasons == ("the mean of kind is 0.750 (needs 0.9)",)


def test_a_required_threshold_of_1_is_decided_as_a_gate(verdicts):
    kind, rules = {"id": "kind", "threshold": 1}, {"require_thresholds": True, **INTERVAL}
    models, _ = verdicts({"all": (40, 40), "few": (20, 20), "most": (39, 40)}, kind, **rules)
    assert {name: each.outcome.value for name, each in models.items()} == {
        "all": "may ship",
        "few": "undecided",
        "most": "may not ship",
    }
    assert models["most"].reasons == ("1 of 40 outputs is under the threshold 1 of kind (none may)",)

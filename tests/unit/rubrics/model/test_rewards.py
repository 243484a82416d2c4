"""Rewards of outputs: gates, missing verdicts and criteria that are not rewarded, worked out by hand."""

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.model.scores import Gates, Reward, RewardRule
from tests.support.law_over import law_over

METHOD = {"type": "check", "check": "any"}


def rule(gates: str = "veto", **others: object) -> RewardRule:
    """Weights 3 and 1, a penalty of 1, a gate, and a criterion that is not rewarded."""
    weights = {"right": 3.0, "short": 1.0, "rude": -1.0, "watched": 4.0}
    criteria = [
        {"id": name, "description": "?", "method": METHOD, "weight": weight, "reward": name != "watched"}
        for name, weight in weights.items()
    ]
    gate = {"id": "safe", "description": "?", "method": METHOD, "gate": True}
    values = {"id": "reply", "version": "1.0.0", "criteria": [*criteria, gate]} | others
    return RewardRule(Rubric.model_validate(values), Gates.read(gates))


GOOD = {"right": 1.0, "short": 0.0, "rude": 0.0, "watched": 0.0, "safe": 1.0}


def test_a_criterion_that_is_not_rewarded_counts_nowhere():
    # (3 x 1 + 1 x 0 - 1 x 0) / (3 + 1); with `watched` it would be 3 / 8
    assert rule().reward(GOOD) == Reward(0.75, 0.75, 0.75, ())
    assert rule().reward(GOOD | {"watched": None}).value == 0.75


def test_a_veto_gives_the_lowest_score_that_the_rubric_has():
    # all positive criteria at 0, the penalty in full: -1 / 4
    assert rule("veto").reward(GOOD | {"safe": 0.0}) == Reward(-0.25, -0.25, -0.25, ("safe",))


def test_a_penalty_is_taken_off_for_each_failed_gate():
    assert rule("penalty=0.5").reward(GOOD | {"safe": 0.0}).value == 0.25


def test_ignored_gates_change_nothing():
    assert rule("ignore").reward(GOOD | {"safe": 0.0}).value == 0.75
    assert rule("ignore").reward(GOOD | {"safe": None}).value == 0.75


@pytest.mark.parametrize(("missing", "low", "high"), [("right", 0.0, 0.75), ("short", 0.75, 1.0), ("rude", 0.5, 0.75)])
def test_a_missing_verdict_makes_no_reward_but_bounds(missing, low, high):
    assert rule().reward(GOOD | {missing: None}) == Reward(None, low, high, ())


def test_an_open_gate_leaves_the_reward_open():
    assert rule("veto").reward(GOOD | {"safe": None}) == Reward(None, -0.25, 0.75, ())
    assert rule("penalty=1").reward(GOOD | {"safe": None}) == Reward(None, -0.25, 0.75, ())


def test_a_category_without_a_rewarded_criterion_has_no_weight():
    categories = [{"id": "a", "weight": 1}, {"id": "b", "weight": 9}]
    criteria = [
        {"id": "x", "description": "?", "method": METHOD, "category": "a"},
        {"id": "y", "description": "?", "method": METHOD, "category": "b", "reward": False},
    ]
    assert rule(categories=categories, criteria=criteria).reward({"x": 0.5, "y": 1.0}).value == 0.5


def test_a_rubric_without_a_rewarded_weight_has_no_rewards():
    gate = {"id": "safe", "description": "?", "method": METHOD, "gate": True}
    with pytest.raises(InputError, match="no criterion that is rewarded"):
        rule(criteria=[gate])


@law_over("text", ["", "vetoed", "penalty", "penalty=", "penalty=-1", "penalty=nan", "penalty=inf"])
def test_other_gates_are_refused(text):
    with pytest.raises(InputError, match="expected veto, ignore or penalty=X"):
        Gates.read(text)

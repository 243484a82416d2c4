"""Score of a distribution over levels."""

from typing import Any

import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.distributions import VerdictRule, read_distribution, verdict_of
from tests.support.law_over import law_over

LEVELS = [{"id": "bad", "score": 0}, {"id": "fair", "score": 0.5}, {"id": "good", "score": 1}]
SHARES = {"bad": 0.3, "fair": 0.25, "good": 0.45}


def criterion(**changes: Any) -> Criterion:
    own = {"id": "tone", "description": "Kind?", "method": {"type": "judge"}, "levels": LEVELS}
    return Criterion.model_validate(own | changes)


@law_over(
    ("rule", "level", "score"),
    [
        (VerdictRule(), "good", 0.575),  # 0.25 x 0.5 + 0.45 x 1
        (VerdictRule("mode"), "good", 1.0),
        (VerdictRule("threshold", 0.45), "good", 1.0),
        (VerdictRule("threshold", 0.5), "fair", 0.5),  # fair or better: 0.7
        (VerdictRule("threshold", 0.9), "bad", 0.0),
        (VerdictRule("threshold", 1.0), "bad", 0.0),
    ],
)
def test_verdict_by_its_rule(rule: VerdictRule, level: str, score: float):
    assert verdict_of(SHARES, criterion(), rule) == (level, pytest.approx(score))


def test_gate_without_a_threshold_takes_its_most_probable_level_and_with_one_the_expected_score():
    assert verdict_of(SHARES, criterion(gate=True)) == ("good", 1.0)
    assert verdict_of(SHARES, criterion(gate=True, threshold=0.5)) == ("good", pytest.approx(0.575))


def test_equal_levels_give_the_worse_one():
    assert verdict_of({"bad": 0.4, "fair": 0.2, "good": 0.4}, criterion())[0] == "bad"
    assert read_distribution({"bad": 0.4, "good": 0.4, None: 0.2}).level_id == "bad"

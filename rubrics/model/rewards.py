"""Reward of one output for a trainer: its score without the criteria that are not rewarded, and its gates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric, WeightTree
from gradebook.rubrics.model.scores import OutputScore, ScoreRule

_PENALTY = "penalty="


@dataclass(frozen=True, slots=True)
class Gates:
    """Effect of a failed gate on a reward.

    veto: the lowest score that the rubric can give. penalty: points taken off for each failed gate. ignore: none.
    """

    kind: Literal["veto", "penalty", "ignore"] = "veto"
    penalty: float = 0.0

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `veto`, `ignore` or `penalty=0.5`. Raises `InputError`."""
        if text == "veto":
            return cls("veto")
        if text == "ignore":
            return cls("ignore")
        try:
            penalty = float(text.removeprefix(_PENALTY)) if text.startswith(_PENALTY) else math.nan
        except ValueError:
            penalty = math.nan
        if not 0 <= penalty < math.inf:
            raise InputError("gates", repr(text), "veto, ignore or penalty=X with a number X of 0 or more")
        return cls("penalty", penalty)

    def __str__(self) -> str:
        return f"{_PENALTY}{self.penalty:g}" if self.kind == "penalty" else self.kind


@dataclass(frozen=True, slots=True)
class Reward:
    """Reward of an output with its bounds. value: None if a rewarded verdict is missing: never 0 for a fault."""

    value: float | None
    low: float | None
    high: float | None
    failed_gates: tuple[str, ...]


class RewardRule:
    """Arithmetic of a rubric's rewards: from the scores of an output by criterion to its reward.

    Raises `InputError` if no rewarded criterion has a weight.
    """

    def __init__(self, rubric: Rubric, gates: Gates) -> None:
        rewarded = rewarded_rubric(rubric)
        self._gates = gates
        self._rule = ScoreRule(rewarded)
        self._gate_ids = tuple(each.id for each in rewarded.criteria if each.gate)
        worst = {each.id: each.ranked_levels[-1 if each.own_weight < 0 else 0].score for each in rewarded.criteria}
        lowest = self._rule.score(worst).score
        if lowest is None and rubric.criteria:  # with `none`, rows bring their own
            expected = "a criterion with a weight above 0 and without `reward: false`"
            raise InputError(rubric.id, "no criterion that is rewarded", expected)
        self._lowest = min(lowest or 0.0, 0.0)

    def reward(self, scores: Mapping[str, float | None], own: Sequence[CaseCriterion] = ()) -> Reward:
        """Reward of one output. scores: 0..1 by criterion id; None or missing: unscored. own: per-case criteria."""
        rewarded = [each for each in own if each.reward]
        found = self._rule.score(scores, rewarded)
        gates = (*self._gate_ids, *(each.id for each in rewarded if each.gate))
        open_count = sum(scores.get(each) is None for each in gates)
        if self._gates.kind == "ignore" or not gates:
            return Reward(found.score, found.score_low, found.score_high, found.failed_gates)
        if self._gates.kind == "veto":
            return self._vetoed(found, open_count)
        taken = self._gates.penalty * len(found.failed_gates)
        score = None if open_count or found.score is None else found.score - taken
        low = None if found.score_low is None else found.score_low - taken - self._gates.penalty * open_count
        high = None if found.score_high is None else found.score_high - taken
        return Reward(score, low, high, found.failed_gates)

    def _vetoed(self, found: OutputScore, open_count: int) -> Reward:
        if found.failed_gates:
            return Reward(self._lowest, self._lowest, self._lowest, found.failed_gates)
        if open_count:
            return Reward(None, self._lowest, found.score_high, ())
        return Reward(found.score, found.score_low, found.score_high, ())


def rewarded_rubric(rubric: Rubric) -> Rubric:
    """The rubric without the criteria that are not rewarded, and without the categories that are then empty."""
    criteria = tuple(each for each in rubric.criteria if each.reward)
    found = rubric.model_copy(update={"criteria": criteria})
    while empty := [each for each in found.categories if WeightTree.of(found).positive_sums[each.id] <= 0]:
        found = found.model_copy(update={"categories": tuple(each for each in found.categories if each not in empty)})
    return found

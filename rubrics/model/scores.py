"""Score of one output, computed from its scores by criterion as the models in sql/intermediate/scores do.

A trainer's reward is this score over the rewarded criteria, and the effect of gates.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, prod
from typing import Literal, Self

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import TOP, CaseCriterion, Criterion, Rubric, Step, WeightTree, effective_weights

NO_WEIGHTS = "no_weights: no criterion with a weight applies"
ONLY_PENALTIES = "only_penalties: no criterion that applies gives points"
UNSCORED_CRITERIA = "unscored_criteria: a criterion with a weight has no score"
OVERALL_DIGITS = 12  # decimals: equal verdicts give equal scores, whatever the order of a sum
RATING_DIGITS = 6  # decimals of a mean on a rating scale
_ERROR = 1e-9  # rounding error of a sum of floats


@dataclass(frozen=True, slots=True)
class OutputScore:
    """Columns of an output in `output_scores`.

    score: 0..1 (below 0 only through penalties); None if a weighted verdict is missing (score_low and score_high are
    then its bounds), or if no criterion gives points; unscored_reason says which. is_passed: None if unknown, or if the
    rubric requires nothing.
    """

    score: float | None
    score_low: float | None
    score_high: float | None
    failed_gates: tuple[str, ...]
    is_passed: bool | None
    unscored_reason: str | None


@dataclass(frozen=True, slots=True)
class _WeightedCriterion:
    """Criterion that applies to an output. weight: comparable between the rubric's and per-case criteria."""

    criterion: Criterion
    weight: float
    steps: tuple[Step, ...]

    def threshold(self) -> float | None:
        """Lowest score that meets the criterion; None without a threshold."""
        return self.criterion.gate_threshold if self.criterion.gate else self.criterion.threshold


class ScoreRule:
    """Rule that computes an output's score from its scores by criterion."""

    def __init__(self, rubric: Rubric) -> None:
        tree, weights = WeightTree.of(rubric), effective_weights(rubric)
        scale = tree.positive_sums[TOP] if rubric.categories else 1.0
        self._rubric = rubric
        self._criteria = tuple(
            _WeightedCriterion(
                criterion, weights[criterion.id] * scale, tree.steps(criterion) if rubric.categories else ()
            )
            for criterion in rubric.criteria
        )

    def score(
        self,
        scores: Mapping[str, float | None],
        own: Sequence[CaseCriterion] = (),
        unmet: Collection[str] = (),
    ) -> OutputScore:
        """Score of one output. scores: 0..1 by criterion id; None or missing: unscored. own: per-case criteria.

        unmet: ids of criteria whose condition does not hold for the output.
        """
        candidates = (*self._criteria, *(self._case_criterion(criterion) for criterion in own))
        present = [entry for entry in candidates if scores.get(entry.criterion.id) is not None]
        applied = [
            entry
            for entry in candidates
            if entry in present or (entry.criterion.required and entry.criterion.id not in unmet)
        ]
        score_by_id = {entry.criterion.id: scores[entry.criterion.id] or 0.0 for entry in present}
        missing = [entry for entry in applied if entry.criterion.id not in score_by_id]
        is_weight_missing = any(entry.weight for entry in missing)
        points = fsum(entry.weight * score_by_id[entry.criterion.id] for entry in present)
        base = _positive(present if self._rubric.missing == "skip" else applied)
        if self._rubric.missing == "skip" and self._rubric.categories and len(present) < len(candidates):
            points, base = _reweighted(present, score_by_id)
        is_open = self._rubric.missing == "null" and is_weight_missing
        low = high = points
        if is_open:
            low, high = points + fsum(min(entry.weight, 0.0) for entry in missing), points + _positive(missing)
        score, score_low, score_high = (_share(value, base) for value in (points, low, high))
        failed = tuple(
            sorted(
                entry.criterion.id
                for entry in present
                if entry.criterion.gate and _is_below(score_by_id[entry.criterion.id], entry.threshold())
            )
        )
        score = None if is_open else score
        return OutputScore(
            score,
            score_low,
            score_high,
            failed,
            False if failed else self._is_passed(applied, score_by_id, score_low, score_high),
            None if score is not None else _unscored_reason(applied),
        )

    def _case_criterion(self, criterion: CaseCriterion) -> _WeightedCriterion:
        weight = criterion.own_weight
        return _WeightedCriterion(criterion, weight, (Step(TOP, f"own:{criterion.id}", weight),))

    def _is_passed(
        self,
        applied: Sequence[_WeightedCriterion],
        score_by_id: Mapping[str, float],
        low: float | None,
        high: float | None,
    ) -> bool | None:
        rubric, weighted = self._rubric, [entry for entry in applied if entry.weight]
        gates = [entry for entry in applied if entry.criterion.gate]
        marked = [entry for entry in weighted if entry.criterion.threshold is not None]
        if _is_below(high, rubric.pass_threshold):
            return False
        scored = [entry for entry in marked if entry.criterion.id in score_by_id]
        if rubric.require_thresholds and any(
            _is_below(score_by_id[entry.criterion.id], entry.threshold()) for entry in scored
        ):
            return False
        is_required = rubric.pass_threshold is not None or gates or (rubric.require_thresholds and weighted)
        is_known = (
            all(entry.criterion.id in score_by_id for entry in gates)
            and (rubric.pass_threshold is None or (low is not None and not _is_below(low, rubric.pass_threshold)))
            and (not rubric.require_thresholds or len(scored) == len(marked))
        )
        return True if is_required and is_known else None


def _unscored_reason(applied: Sequence[_WeightedCriterion]) -> str:
    if any(entry.weight > 0 for entry in applied):
        return UNSCORED_CRITERIA
    return ONLY_PENALTIES if any(entry.weight for entry in applied) else NO_WEIGHTS


def _reweighted(present: Sequence[_WeightedCriterion], score_by_id: Mapping[str, float]) -> tuple[float, float]:
    """Sums of points and of positive weights over the scored criteria, without categories that have none."""
    nodes: dict[str, dict[str, float]] = {}
    for entry in present:
        for step in entry.steps if entry.weight > 0 else ():
            nodes.setdefault(step.parent, {})[step.node] = step.weight
    sums = {parent: fsum(weights.values()) for parent, weights in nodes.items()}
    points = fsum(
        score_by_id[entry.criterion.id]
        * prod(step.weight if step.parent == TOP else step.weight / sums[step.parent] for step in entry.steps)
        for entry in present
        if entry.weight and all(step.parent in (TOP, *sums) for step in entry.steps)
    )
    return points, sums.get(TOP, 0.0)


def _positive(criteria: Sequence[_WeightedCriterion]) -> float:
    return fsum(max(criterion.weight, 0.0) for criterion in criteria)


def _share(points: float, base: float) -> float | None:
    return round(points / base, OVERALL_DIGITS) if base else None


def _is_below(score: float | None, threshold: float | None) -> bool:
    return score is not None and threshold is not None and score < threshold - _ERROR


def rating_scale(rubric: Rubric) -> tuple[int, int] | None:
    """Least and largest number of the scale that all criteria with a weight share; None if there is no such scale.

    A weighted mean of ratings on the scale is then the score on it, since levels lie at equal steps.
    """
    scales = set()
    for criterion in rubric.criteria:
        if criterion.own_weight <= 0:
            if criterion.own_weight < 0:
                return None
            continue
        ids = [level.id for level in criterion.ranked_levels]
        steps = [level.score for level in criterion.ranked_levels]
        is_even = all(abs(score - index / (len(steps) - 1)) < _ERROR for index, score in enumerate(steps))
        if not (is_even and all(name.isascii() and name.isdigit() for name in ids)):
            return None
        if [int(name) for name in ids] != [*range(int(ids[0]), int(ids[0]) + len(ids))]:
            return None
        scales.add((int(ids[0]), int(ids[-1])))
    return scales.pop() if len(scales) == 1 else None


def on_scale(score: float, scale: tuple[int, int]) -> float:
    """Rating on a scale that corresponds to a score of 0..1."""
    return round(scale[0] + score * (scale[1] - scale[0]), RATING_DIGITS)


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
    """Rule that computes an output's reward from its scores by criterion.

    Raises `InputError` if no rewarded criterion has a weight.
    """

    def __init__(self, rubric: Rubric, gates: Gates) -> None:
        rewarded = rewarded_rubric(rubric)
        self._gates = gates
        self._rule = ScoreRule(rewarded)
        self._gate_ids = tuple(criterion.id for criterion in rewarded.criteria if criterion.gate)
        worst = {
            criterion.id: criterion.ranked_levels[-1 if criterion.own_weight < 0 else 0].score
            for criterion in rewarded.criteria
        }
        lowest = self._rule.score(worst).score
        if lowest is None and rubric.criteria:  # the rubric `none` has only the rows' criteria
            expected = "a criterion with a weight above 0 and without `reward: false`"
            raise InputError(rubric.id, "no criterion that is rewarded", expected)
        self._lowest = min(lowest or 0.0, 0.0)

    def reward(
        self,
        scores: Mapping[str, float | None],
        own: Sequence[CaseCriterion] = (),
        unmet: Collection[str] = (),
    ) -> Reward:
        """Reward of one output. scores: 0..1 by criterion id; None or missing: unscored. own: per-case criteria.

        unmet: as of `ScoreRule.score`.
        """
        rewarded = [criterion for criterion in own if criterion.reward]
        output_score = self._rule.score(scores, rewarded, unmet)
        gates = [*self._gate_ids, *(criterion.id for criterion in rewarded if criterion.gate)]
        gates = [gate_id for gate_id in gates if gate_id not in unmet]
        open_count = sum(scores.get(gate_id) is None for gate_id in gates)
        if self._gates.kind == "ignore" or not gates:
            return Reward(
                output_score.score, output_score.score_low, output_score.score_high, output_score.failed_gates
            )
        if self._gates.kind == "veto":
            return self._vetoed(output_score, open_count)
        penalty = self._gates.penalty * len(output_score.failed_gates)
        score = None if open_count or output_score.score is None else output_score.score - penalty
        low = (
            None
            if output_score.score_low is None
            else output_score.score_low - penalty - self._gates.penalty * open_count
        )
        high = None if output_score.score_high is None else output_score.score_high - penalty
        return Reward(score, low, high, output_score.failed_gates)

    def _vetoed(self, output_score: OutputScore, open_count: int) -> Reward:
        if output_score.failed_gates:
            return Reward(self._lowest, self._lowest, self._lowest, output_score.failed_gates)
        if open_count:
            return Reward(None, self._lowest, output_score.score_high, ())
        return Reward(output_score.score, output_score.score_low, output_score.score_high, ())


def rewarded_rubric(rubric: Rubric) -> Rubric:
    """Rubric without criteria that are not rewarded, and without the categories that are then empty."""
    criteria = tuple(criterion for criterion in rubric.criteria if criterion.reward)
    reduced = rubric.model_copy(update={"criteria": criteria})
    while empty := [
        category for category in reduced.categories if WeightTree.of(reduced).positive_sums[category.id] <= 0
    ]:
        reduced = reduced.model_copy(
            update={"categories": tuple(category for category in reduced.categories if category not in empty)}
        )
    return reduced

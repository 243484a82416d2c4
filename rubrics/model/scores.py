"""Score of one output, computed from its scores by criterion as the models in sql/intermediate/scores do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, prod

from gradebook.rubrics.model.rubric import TOP, CaseCriterion, Criterion, Rubric, Step, WeightTree, effective_weights

NO_WEIGHTS = "no_weights: no criterion with a weight applies"
ONLY_PENALTIES = "only_penalties: no criterion that applies gives points"
UNSCORED_CRITERIA = "unscored_criteria: a criterion with a weight has no score"
OVERALL_DIGITS = 12  # equal verdicts give equal scores, whatever the order of a sum
_ERROR = 1e-9  # of a sum of floats


@dataclass(frozen=True, slots=True)
class OutputScore:
    """Columns of an output in `output_scores`.

    score: 0..1 (below 0 only through penalties), None where a weighted verdict is missing, with score_low and
    score_high as its bounds, or where nothing gives points; unscored_reason says which. is_passed: None where unknown,
    or where nothing is required.
    """

    score: float | None
    score_low: float | None
    score_high: float | None
    failed_gates: tuple[str, ...]
    is_passed: bool | None
    unscored_reason: str | None


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A criterion that applies to an output. weight: on one scale for the rubric's and per-case criteria."""

    criterion: Criterion
    weight: float
    steps: tuple[Step, ...]

    def mark(self) -> float | None:
        """Lowest score with which the criterion is met; None without one."""
        return self.criterion.gate_threshold if self.criterion.gate else self.criterion.threshold


class ScoreRule:
    """Arithmetic of a rubric: from the scores of an output by criterion to its own."""

    def __init__(self, rubric: Rubric) -> None:
        tree, weights = WeightTree.of(rubric), effective_weights(rubric)
        scale = tree.positive_sums[TOP] if rubric.categories else 1.0
        self._rubric = rubric
        self._criteria = tuple(
            _Weighted(each, weights[each.id] * scale, tree.steps(each) if rubric.categories else ())
            for each in rubric.criteria
        )

    def score(self, scores: Mapping[str, float | None], own: Sequence[CaseCriterion] = ()) -> OutputScore:
        """Score of one output. scores: 0..1 by criterion id; None or missing: unscored. own: per-case criteria."""
        known = (*self._criteria, *(self._own(each) for each in own))
        present = [each for each in known if scores.get(each.criterion.id) is not None]
        applied = [each for each in known if each.criterion.required or each in present]
        found = {each.criterion.id: scores[each.criterion.id] or 0.0 for each in present}
        missing = [each for each in applied if each.criterion.id not in found]
        is_weight_missing = any(each.weight for each in missing)
        points = fsum(each.weight * found[each.criterion.id] for each in present)
        base = _positive(present if self._rubric.missing == "skip" else applied)
        if self._rubric.missing == "skip" and self._rubric.categories and len(present) < len(known):
            points, base = _reweighted(present, found)
        is_open = self._rubric.missing == "null" and is_weight_missing
        low = high = points
        if is_open:
            low, high = points + fsum(min(each.weight, 0.0) for each in missing), points + _positive(missing)
        score, score_low, score_high = (_share(value, base) for value in (points, low, high))
        failed = tuple(
            sorted(
                each.criterion.id
                for each in present
                if each.criterion.gate and _is_below(found[each.criterion.id], each.mark())
            )
        )
        score = None if is_open else score
        return OutputScore(
            score,
            score_low,
            score_high,
            failed,
            False if failed else self._is_passed(applied, found, score_low, score_high),
            None if score is not None else _unscored_reason(applied),
        )

    def _own(self, criterion: CaseCriterion) -> _Weighted:
        weight = criterion.own_weight
        return _Weighted(criterion, weight, (Step(TOP, f"own:{criterion.id}", weight),))

    def _is_passed(
        self, applied: Sequence[_Weighted], found: Mapping[str, float], low: float | None, high: float | None
    ) -> bool | None:
        rubric, weighted = self._rubric, [each for each in applied if each.weight]
        gates = [each for each in applied if each.criterion.gate]
        marked = [each for each in weighted if each.criterion.threshold is not None]
        if _is_below(high, rubric.pass_threshold):
            return False
        scored = [each for each in marked if each.criterion.id in found]
        if rubric.require_thresholds and any(_is_below(found[each.criterion.id], each.mark()) for each in scored):
            return False
        is_required = rubric.pass_threshold is not None or gates or (rubric.require_thresholds and weighted)
        is_known = (
            all(each.criterion.id in found for each in gates)
            and (rubric.pass_threshold is None or (low is not None and not _is_below(low, rubric.pass_threshold)))
            and (not rubric.require_thresholds or len(scored) == len(marked))
        )
        return True if is_required and is_known else None


def _unscored_reason(applied: Sequence[_Weighted]) -> str:
    if any(each.weight > 0 for each in applied):
        return UNSCORED_CRITERIA
    return ONLY_PENALTIES if any(each.weight for each in applied) else NO_WEIGHTS


def _reweighted(present: Sequence[_Weighted], found: Mapping[str, float]) -> tuple[float, float]:
    """Points and positive weight over the scored criteria: a category without any of them is left out."""
    nodes: dict[str, dict[str, float]] = {}
    for each in present:
        for step in each.steps if each.weight > 0 else ():
            nodes.setdefault(step.parent, {})[step.node] = step.weight
    sums = {parent: fsum(weights.values()) for parent, weights in nodes.items()}
    points = fsum(
        found[each.criterion.id]
        * prod(step.weight if step.parent == TOP else step.weight / sums[step.parent] for step in each.steps)
        for each in present
        if each.weight and all(step.parent in (TOP, *sums) for step in each.steps)
    )
    return points, sums.get(TOP, 0.0)


def _positive(criteria: Sequence[_Weighted]) -> float:
    return fsum(max(each.weight, 0.0) for each in criteria)


def _share(points: float, base: float) -> float | None:
    return round(points / base, OVERALL_DIGITS) if base else None


def _is_below(score: float | None, mark: float | None) -> bool:
    return score is not None and mark is not None and score < mark - _ERROR

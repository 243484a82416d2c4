"""Feedback: what an output has to mend, in words for a model that answers again."""

from dataclasses import dataclass

from gradebook.rubrics.model.rubric import CaseCriterion, Criterion, Rubric
from gradebook.tasks.rewards.scored import CriterionScore, Score

NOTHING = "Every criterion is met."


@dataclass(frozen=True, slots=True)
class Mending:
    """One criterion that is not met. best: its best level in words. why: the judge's reason, or what was found."""

    criterion_id: str
    description: str
    level_id: str | None
    best: str
    why: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """Criteria that an output does not meet, the heaviest first.

    is_done: whether a retry loop may stop: all criteria are met, as far as they are scored. unscored: criteria that
    nothing scored. Criteria with `reward: false` are left out: a model that reads them would answer to them.
    """

    is_done: bool
    mendings: tuple[Mending, ...]
    unscored: tuple[str, ...]

    def __str__(self) -> str:
        if not self.mendings:
            return NOTHING
        lines = ["Please mend this:"]
        for each in self.mendings:
            lines.append(f"- {each.description}")
            lines += [f"  Found: {each.why}"] if each.why else []
            lines += [f"  Wanted: {each.best}"] if each.best else []
        return "\n".join(lines)


def feedback_on(score: Score, rubric: Rubric, own: tuple[CaseCriterion, ...]) -> Feedback:
    """Feedback from the verdicts on an output; a criterion without a threshold is met at its best level."""
    known: dict[str, Criterion] = {each.id: each for each in (*rubric.criteria, *own)}
    counted = [each for each in score.criteria.values() if each.is_rewarded]
    unmet = [each for each in counted if _is_unmet(each, known[each.criterion_id])]
    unmet.sort(key=lambda each: (not each.is_gate, -abs(each.weight)))
    unscored = tuple(each.criterion_id for each in counted if each.score is None)
    return Feedback(
        not unmet and not unscored, tuple(_mending(each, known[each.criterion_id]) for each in unmet), unscored
    )


def _is_unmet(found: CriterionScore, criterion: Criterion) -> bool:
    if found.score is None:
        return False
    if found.weight < 0:  # a penalty: its top level is the bad one
        return found.score > criterion.ranked_levels[0].score
    return not found.is_met if found.needs is not None else found.score < criterion.ranked_levels[-1].score


def _mending(found: CriterionScore, criterion: Criterion) -> Mending:
    best = criterion.ranked_levels[0 if found.weight < 0 else -1]
    why = found.rationale or found.evidence or ""
    return Mending(found.criterion_id, criterion.description, found.level_id, best.description, why)

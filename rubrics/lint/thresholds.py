"""Rules about thresholds."""

from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.model.rubric import Rubric, score_range


@register_rule("trivial-threshold", "warning", "Raise the threshold to a score that an output can miss.")
def find_trivial_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """Every output reaches the threshold: it is 0, or no more than the worst level's score."""
    for index, criterion in enumerate(rubric.criteria):
        worst = criterion.ranked_levels[0].score
        if criterion.threshold is not None and criterion.threshold <= worst:
            message = f"found {criterion.threshold:g}, expected more than {worst:g}, the score of the worst level"
            yield Remark(("criteria", index, "threshold"), message)
    scores = score_range(rubric)
    if rubric.pass_threshold is not None and scores and rubric.pass_threshold <= scores[0]:
        message = f"found {rubric.pass_threshold:g}, expected more than {scores[0]:g}, the lowest possible score"
        yield Remark(("pass_threshold",), message)


@register_rule("strict-threshold", "warning", "Lower the threshold to a score that a good output reaches.")
def find_strict_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """Only the best possible output passes, although a criterion has three or more levels."""
    scores = score_range(rubric)
    has_degrees = any(len(each.ranked_levels) > 2 and not each.gate for each in rubric.criteria)
    if rubric.pass_threshold is not None and scores and has_degrees and rubric.pass_threshold >= scores[1]:
        message = f"found {rubric.pass_threshold:g}, expected less than {scores[1]:g}, the highest possible score"
        yield Remark(("pass_threshold",), message)


@register_rule("no-threshold", "warning", "Set a threshold: the score from which the criterion is met.")
def find_missing_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """A weighted criterion has no threshold, so it is undefined when it is met."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.own_weight > 0 and criterion.threshold is None:
            yield Remark(("criteria", index), "found no threshold, expected a score from which the criterion is met")

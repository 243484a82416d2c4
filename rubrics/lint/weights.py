"""Rules about weights."""

from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.model.rubric import TOP, Rubric, WeightTree
from gradebook.rubrics.text.plain_words import Place

FEWEST_EQUAL = 3
# For a weight_sum below 1, a share of it. A third has no finite decimal form, so three times 0.333 (0.999) counts as 1.
# Three times 0.33 (0.99) does not: it is as far off as 0.5 + 0.49, where a weight is wrong; one of the thirds is 0.34.
SUM_TOLERANCE = 0.005
USUAL_SUMS = (1, 100)
USUAL_TOLERANCE = 0.01  # share of the sum
ROUNDING = 1e-9  # of the sum itself: ten weights of 0.1 add up to slightly less than 1


@register_rule("equal-weights", "warning", "Weight the criteria by importance, or give a rationale for equal weights.")
def find_equal_weights(rubric: Rubric) -> Iterator[Remark]:
    """Three or more criteria all have the same weight, and not all of them have a rationale for it."""
    weighted = [criterion for criterion in rubric.criteria if not criterion.gate]
    weights = [criterion.own_weight for criterion in weighted]
    category_weights = {category.weight for category in rubric.categories}
    is_alike = len(set(weights)) == 1 and len(category_weights) <= 1
    if len(weights) >= FEWEST_EQUAL and is_alike and not all(criterion.rationale for criterion in weighted):
        yield Remark(
            ("criteria",), f"found {len(weights)} weights of {weights[0]:g}, expected different ones or a rationale"
        )


@register_rule("weight-sum", "error", "Correct the weights, or weight_sum.")
def find_wrong_sums(rubric: Rubric) -> Iterator[Remark]:
    """The weights of a group do not add up to the rubric's weight_sum, to within 0.005 of it."""
    expected = rubric.weight_sum
    if expected is None:
        return
    places = _places(rubric)
    tolerance = SUM_TOLERANCE * min(1, expected) + ROUNDING * expected
    for group, found in WeightTree.of(rubric).positive_sums.items():
        if found > 0 and abs(found - expected) > tolerance:
            whose = "weights" if group == TOP else f"weights in {group}"
            message = f"found {whose} that add up to {found:.9g}, expected {expected:.9g}"
            yield Remark(places.get(group, ("weight_sum",)), message)


@register_rule("unusual-weight-sum", "note", "Correct the weights, or set weight_sum to the sum that is meant.")
def find_unusual_sums(rubric: Rubric) -> Iterator[Remark]:
    """Weights with decimals add up to neither 1 nor 100, to within 1%, and no weight_sum is given.

    Whole numbers state ratios, and penalties state points: neither is found.
    """
    given = [criterion.weight for criterion in rubric.criteria if criterion.weight is not None]
    given += [category.weight for category in rubric.categories]
    if rubric.weight_sum is not None or min(given, default=0) < 0 or all(weight == int(weight) for weight in given):
        return
    places = _places(rubric)
    for group, found in WeightTree.of(rubric).positive_sums.items():
        if found > 0 and all(abs(found - usual) > usual * USUAL_TOLERANCE + ROUNDING for usual in USUAL_SUMS):
            whose = "weights" if group == TOP else f"weights in {group}"
            yield Remark(places.get(group, ("criteria",)), f"found {whose} that add up to {found:.9g}, expected 1")


def _places(rubric: Rubric) -> dict[str, Place]:
    """Place of each category."""
    return {category.id: ("categories", index) for index, category in enumerate(rubric.categories)}

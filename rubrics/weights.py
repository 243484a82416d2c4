"""What a criterion weighs in the whole: the product of its shares along the tree of categories.

A group's score is the weighted mean of what it holds, categories and criteria alike, over the positive weights among
them. So a rubric's score is a flat weighted mean under these products, as long as no verdict is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradebook.rubrics.model import Criterion, Rubric

TOP = ""  # the group that holds everything
NO_CATEGORY = "(none)"  # holds the criteria that name no category


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a criterion's way down a group: from the category that is the parent to what it holds.

    node: `category:ID` or, last, `criterion:ID`, so that no category can be taken for a criterion; weight: its own.
    """

    parent: str
    node: str
    weight: float


@dataclass(frozen=True, slots=True)
class WeightTree:
    """The categories of a rubric as a tree. positive_sums: of what a group holds directly, by group."""

    rubric: "Rubric"
    weights: dict[str, float]
    parents: dict[str, str | None]
    positive_sums: dict[str, float]

    @classmethod
    def of(cls, rubric: "Rubric") -> "WeightTree":
        """The tree of a rubric; only its top where it lists no categories."""
        sums = dict.fromkeys([TOP, *(category.id for category in rubric.categories)], 0.0)
        for category in rubric.categories:
            group = category.parent or TOP
            sums[group] = sums.get(group, 0.0) + category.weight
        for criterion in rubric.criteria:
            group = criterion.category or TOP if rubric.categories else TOP
            sums[group] = sums.get(group, 0.0) + max(rubric.weight_of(criterion), 0.0)
        return cls(
            rubric,
            {category.id: category.weight for category in rubric.categories},
            {category.id: category.parent for category in rubric.categories},
            sums,
        )

    def groups_above(self, category: str | None) -> list[str]:
        """The category and those around it, the outermost last."""
        found: list[str] = []
        while category is not None and category in self.parents:
            found.append(category)
            category = self.parents[category]
        return found

    def steps(self, criterion: "Criterion", root: str = TOP) -> tuple[Step, ...]:
        """The criterion's way down from a group, the group's child first; empty where the group does not hold it."""
        path = [TOP, *reversed(self.groups_above(criterion.category))]
        if root not in path or criterion.gate:
            return ()
        path = path[path.index(root) :]
        groups = [Step(parent, f"category:{inner}", self.weights[inner]) for parent, inner in pairwise(path)]
        return (*groups, Step(path[-1], f"criterion:{criterion.id}", self.rubric.weight_of(criterion)))

    def share(self, criterion: "Criterion", root: str = TOP) -> float:
        """What the criterion weighs in a group's score; 0 where the group does not hold it, or for a gate."""
        steps = self.steps(criterion, root)
        return prod(step.weight / self.positive_sums[step.parent] for step in steps) if steps else 0.0


def effective_weights(rubric: "Rubric") -> dict[str, float]:
    """What each criterion weighs in an output's score: its own weight where there are no categories; 0 for a gate."""
    if not rubric.categories:
        return {criterion.id: rubric.weight_of(criterion) for criterion in rubric.criteria}
    tree = WeightTree.of(rubric)
    return {criterion.id: tree.share(criterion) for criterion in rubric.criteria}


def highest_score(rubric: "Rubric") -> float | None:
    """What the best output scores: criteria at their best level, penalties at their lowest; None for gates alone."""
    weights = effective_weights(rubric)
    positive_sum = sum(weight for weight in weights.values() if weight > 0)
    if positive_sum <= 0:
        return None
    points = (
        weights[each.id] * each.ranked_levels[-1 if weights[each.id] > 0 else 0].score for each in rubric.criteria
    )
    return sum(points) / positive_sum


def category_weights(rubric: "Rubric") -> dict[str, dict[str, float]]:
    """By category, what each criterion in it or below it weighs in the category's score.

    Where the rubric lists no categories, their names hold the criteria that give them, with their own weights;
    `(none)` holds those that name none.
    """
    tree = WeightTree.of(rubric)
    weights: dict[str, dict[str, float]] = {}
    for criterion in rubric.criteria:
        above = tree.groups_above(criterion.category)
        for category in above:
            weights.setdefault(category, {})[criterion.id] = tree.share(criterion, category)
        if not above:
            weights.setdefault(criterion.category or NO_CATEGORY, {})[criterion.id] = rubric.weight_of(criterion)
    return weights


def tree_steps(rubric: "Rubric") -> Iterator[tuple[str, str, Step]]:
    """Every step of every weighted criterion's way down from every group that holds it: (root, criterion id, step)."""
    tree = WeightTree.of(rubric)
    for criterion in rubric.criteria if rubric.categories else ():
        for root in [TOP, *tree.groups_above(criterion.category)]:
            for step in tree.steps(criterion, root):
                yield root, criterion.id, step


def tree_fault(rubric: "Rubric") -> str | None:
    """What is wrong with the categories, as `categories: found .., expected ..`; None where they are a tree."""
    return next(_tree_faults(rubric), None) if rubric.categories else None


def _tree_faults(rubric: "Rubric") -> Iterator[str]:
    ids = [category.id for category in rubric.categories]
    parents = {category.id: category.parent for category in rubric.categories}
    known = ", ".join(ids)
    if len(ids) != len(parents):
        yield f"categories: found the ids {known}, expected each id once"
    for category_id, parent in parents.items():
        if parent is not None and parent not in parents:
            yield f"categories: found the parent {parent!r}, expected one of {known}"
        if _is_in_itself(category_id, parents):
            yield f"categories: found {category_id!r} within itself, expected a tree"
    for criterion in rubric.criteria:
        if criterion.category is not None and criterion.category not in parents:
            yield f"criteria: found the category {criterion.category!r}, expected one of {known}"
    sums = WeightTree.of(rubric).positive_sums
    for category_id in ids:
        if sums[category_id] <= 0:
            yield f"categories: found {category_id!r} without a positive weight in it, expected a criterion with one"


def _is_in_itself(category: str, parents: dict[str, str | None]) -> bool:
    seen: set[str] = set()
    above: str | None = category
    while above is not None and above in parents:
        if above in seen:
            return True
        seen.add(above)
        above = parents[above]
    return False

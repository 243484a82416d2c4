"""Rubric: criteria with levels, methods, weights or gates, in a tree of categories.

A group's score is the weighted mean of its categories and criteria, over their positive weights. A rubric's score is
therefore a flat weighted mean with the products of the shares along the tree as weights, as long as no score is
missing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import Field, field_validator, model_validator

from gradebook.rubrics.model.conditions import Applies
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.levels import (
    Frozen,
    Level,
    Scale,
    Share,
    preference_levels,
    rank_levels,
    refuse_bad_levels,
)
from gradebook.rubrics.model.methods import (
    NEEDS,
    JudgeMethod,
    Method,
    MethodSettings,
    PreferenceMethod,
    RatingsMethod,
)
from gradebook.rubrics.model.taxonomy import GivenTaxonomy, step_levels

AnyMethod = TypeVar("AnyMethod", bound=MethodSettings)
TOP = ""  # the group that contains everything
NO_CATEGORY = "(none)"  # contains the criteria without a category


ALPHA = 0.025  # each end of a 95% interval
MAX_FAILURE_RATE = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a criterion's path down a group: from a category to one of its children.

    node: `category:ID` or, last, `criterion:ID`, so that categories and criteria cannot be confused; weight: of the
    node itself.
    """

    parent: str
    node: str
    weight: float


@dataclass(frozen=True, slots=True)
class WeightTree:
    """Categories of a rubric as a tree. positive_sums: for each group, the sum of positive weights of its children."""

    weights: dict[str, float]
    parents: dict[str, str | None]
    positive_sums: dict[str, float]

    @classmethod
    def of(cls, rubric: "Rubric") -> "WeightTree":
        """Build the tree of a rubric; it has only a top if the rubric lists no categories."""
        sums = dict.fromkeys([TOP, *(category.id for category in rubric.categories)], 0.0)
        for category in rubric.categories:
            group = category.parent or TOP
            sums[group] = sums.get(group, 0.0) + category.weight
        for criterion in rubric.criteria:
            group = criterion.category or TOP if rubric.categories else TOP
            sums[group] = sums.get(group, 0.0) + max(criterion.own_weight, 0.0)
        return cls(
            {category.id: category.weight for category in rubric.categories},
            {category.id: category.parent for category in rubric.categories},
            sums,
        )

    def groups_above(self, category: str | None) -> list[str]:
        """The category and its ancestors, the outermost last."""
        groups: list[str] = []
        while category is not None and category in self.parents:
            groups.append(category)
            category = self.parents[category]
        return groups

    def steps(self, criterion: "Criterion", root: str = TOP) -> tuple[Step, ...]:
        """Path of a criterion down from a group, the group's child first; empty if it is not in the group."""
        path = [TOP, *reversed(self.groups_above(criterion.category))]
        if root not in path or criterion.gate:
            return ()
        path = path[path.index(root) :]
        groups = [Step(parent, f"category:{inner}", self.weights[inner]) for parent, inner in pairwise(path)]
        return (*groups, Step(path[-1], f"criterion:{criterion.id}", criterion.own_weight))

    def share(self, criterion: "Criterion", root: str = TOP) -> float:
        """Weight of the criterion in a group's score; 0 for a gate, or if it is not in the group."""
        steps = self.steps(criterion, root)
        return prod(step.weight / self.positive_sums[step.parent] for step in steps) if steps else 0.0


def effective_weights(rubric: "Rubric") -> dict[str, float]:
    """Weight of each criterion in an output's score: its own weight without categories; 0 for a gate."""
    if not rubric.categories:
        return {criterion.id: criterion.own_weight for criterion in rubric.criteria}
    tree = WeightTree.of(rubric)
    return {criterion.id: tree.share(criterion) for criterion in rubric.criteria}


def score_range(rubric: "Rubric") -> tuple[float, float] | None:
    """Lowest and highest possible score; None for gates only. A penalty costs most at its top level."""
    weights = effective_weights(rubric)
    positive_sum = sum(weight for weight in weights.values() if weight > 0)
    if positive_sum <= 0:
        return None
    criterion_ranges = [
        sorted(weights[criterion.id] * criterion.ranked_levels[position].score for position in (0, -1))
        for criterion in rubric.criteria
    ]
    lowest, highest = (sum(points) / positive_sum for points in zip(*criterion_ranges, strict=True))
    return lowest, highest


def category_weights(rubric: "Rubric") -> dict[str, dict[str, float]]:
    """Weights of the criteria in each category's score, including those of nested categories.

    If the rubric lists no categories, the names given by criteria form the groups, with the criteria's own weights;
    `(none)` has those without a name.
    """
    tree = WeightTree.of(rubric)
    weights: dict[str, dict[str, float]] = {}
    for criterion in rubric.criteria:
        above = tree.groups_above(criterion.category)
        for category in above:
            weights.setdefault(category, {})[criterion.id] = tree.share(criterion, category)
        if not above:
            weights.setdefault(criterion.category or NO_CATEGORY, {})[criterion.id] = criterion.own_weight
    return weights


def scored_category_weights(rubric: "Rubric") -> dict[str, dict[str, float]]:
    """Weights as `category_weights`, without categories that have no score, as those of penalties only."""
    return {
        category: weights
        for category, weights in category_weights(rubric).items()
        if any(weight > 0 for weight in weights.values())
        or not any(weights.values())  # in a category of gates only, each gate has weight 1
    }


def tree_steps(rubric: "Rubric") -> Iterator[tuple[str, str, Step]]:
    """Yield every step of every weighted criterion below every group that contains it: (root, criterion id, step)."""
    tree = WeightTree.of(rubric)
    for criterion in rubric.criteria if rubric.categories else ():
        for root in [TOP, *tree.groups_above(criterion.category)]:
            for step in tree.steps(criterion, root):
                yield root, criterion.id, step


def tree_fault(rubric: "Rubric") -> tuple[str, str] | None:
    """First fault of the categories as a field of the rubric and a message; None if they form a tree."""
    return next(_tree_faults(rubric), None) if rubric.categories else None


def _tree_faults(rubric: "Rubric") -> Iterator[tuple[str, str]]:
    ids = [category.id for category in rubric.categories]
    parents = {category.id: category.parent for category in rubric.categories}
    listed_ids = ", ".join(ids)
    if len(ids) != len(parents):
        yield "categories", f"found the ids {listed_ids}, expected each id once"
    for category_id, parent in parents.items():
        if parent is not None and parent not in parents:
            yield "categories", f"found the parent {parent!r}, expected one of {listed_ids}"
        if _has_cycle(category_id, parents):
            yield "categories", f"found {category_id!r} within itself, expected a tree"
    for criterion in rubric.criteria:
        if criterion.category is not None and criterion.category not in parents:
            yield "criteria", f"found the category {criterion.category!r}, expected one of {listed_ids}"
    sums = WeightTree.of(rubric).positive_sums
    for category_id in ids:
        if sums[category_id] <= 0:
            yield "categories", f"found {category_id!r} without a positive weight in it, expected a criterion with one"


def _has_cycle(category: str, parents: dict[str, str | None]) -> bool:
    seen: set[str] = set()
    above: str | None = category
    while above is not None and above in parents:
        if above in seen:
            return True
        seen.add(above)
        above = parents[above]
    return False


LARGEST_WEIGHT = 1_000_000
SMALLEST_WEIGHT = 1e-6  # sums of weights and scores are exact to 15 decimal places
ID_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
OWN_ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_.:-]{0,63}$"  # id of a per-case criterion
_NUMBER = "(0|[1-9][0-9]{0,8})"
DAY_PATTERN = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"
VERSION_PATTERN = rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}$"
SCHEMA_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_SCHEMA_OR_FILE: dict[str, Any] = {"additionalProperties": {"type": ["object", "string"]}}
Identifier = Annotated[str, Field(pattern=ID_PATTERN)]
CategoryName = Annotated[str, Field(min_length=1, max_length=64)]
Weight = Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]


class Criterion(Frozen):
    """One question asked about every output."""

    id: Identifier
    """lower-case letters, digits, `_`, up to 64, first a letter"""
    description: Annotated[str, Field(min_length=1)]
    """question for the judge"""
    method: Method
    """see below"""
    name: str | None = None
    """for people"""
    category: CategoryName | None = None
    """group of the criterion in `category_scores`; with `categories`, one of their ids"""
    weight: Weight | None = None
    """default 1; only the ratio of weights counts. A negative weight is a penalty: its top level is the bad one"""
    rationale: str | None = None
    """reason for the weight; for people"""
    gate: bool = False
    """`true`: no weight; failing it fails the output, whatever its score"""
    threshold: Share | None = None
    """0..1: the criterion is met from this score on; a gate without one needs its best level"""
    max_failure_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """of a gate: up to this rate of failing outputs a model may ship; without it, one failing output is too many"""
    levels: tuple[Level, ...] = ()
    """two or more; required for `judge` and `ratings`, unless there is a `scale`; `preference` takes none; the others
    default to fail 0 and pass 1"""
    scale: Scale | None = None
    """numbered points instead of `levels`; see below"""
    required: bool = True
    """`false`: where it has no verdict, it does not apply to the output, whose score is over the other criteria"""
    applies: Applies | None = None
    """condition on the row, `metadata.kind = 'refund'`, or a check: the criterion applies to no other output; see
    [criteria for some outputs](rubric-format.md#criteria-for-some-outputs)"""
    reward: bool = True
    """`false`: scored as any other, but left out of rewards for training, to show what the rewards do not ask for"""
    metadata: dict[str, Any] = {}
    """any mapping; stored with the version"""

    @model_validator(mode="after")
    def _levels_make_a_scale(self) -> Self:
        refuse_bad_levels(self.levels, self.scale)
        if self._needs_levels and not self.levels and not self.scale:
            message = f"found none, expected at least two for the method {self.method.type}"
            raise ModelFault("no-levels", message, "levels")
        if isinstance(self.method, PreferenceMethod) and (self.levels or self.scale):
            message = "found some with the method preference, expected none: they are worse, same and better"
            raise ModelFault("wrong-value", message, "levels" if self.levels else "scale")
        return self

    @model_validator(mode="after")
    def _examples_have_its_levels(self) -> Self:
        level_ids = [level.id for level in self.ranked_levels]
        for index, example in enumerate(self.method.examples if isinstance(self.method, JudgeMethod) else ()):
            if example.level not in level_ids:
                message = f"found {example.level!r}, expected one of {', '.join(level_ids)}"
                raise ModelFault("wrong-example", message, "method", "examples", index, "level")
        return self

    @model_validator(mode="after")
    def _weight_fits(self) -> Self:
        if self.gate and self.weight is not None:
            message = f"found {self.weight:g} on a gate, expected a gate without a weight, or gate: false"
            raise ModelFault("gate-with-weight", message, "weight")
        if self.weight is not None and 0 < abs(self.weight) < SMALLEST_WEIGHT:
            message = f"found {self.weight:g}, expected 0, or {SMALLEST_WEIGHT:f} or more on either side of it"
            raise ModelFault("wrong-value", message, "weight")
        if self.threshold is not None and self.weight is not None and self.weight < 0:
            message = f"found {self.threshold:g} on a penalty, expected none where the weight is below 0"
            raise ModelFault("penalty-with-threshold", message, "threshold")
        return self

    @model_validator(mode="after")
    def _rate_is_of_a_gate(self) -> Self:
        if self.max_failure_rate is not None and not self.gate:
            message = f"found {self.max_failure_rate:g} on a criterion that is no gate, expected gate: true, or none"
            raise ModelFault("wrong-value", message, "max_failure_rate")
        return self

    @model_validator(mode="after")
    def _gate_is_required(self) -> Self:
        if self.gate and not self.required:
            raise ModelFault(
                "wrong-value", "found false on a gate, expected true: an unknown gate is unmet", "required"
            )
        return self

    @property
    def _needs_levels(self) -> bool:
        return self.method.is_read and not self.is_stepwise

    def method_as(self, kind: type[AnyMethod]) -> AnyMethod:
        """Settings of the criterion's method. Raises `TypeError` if they are not of the class `kind`."""
        if not isinstance(self.method, kind):
            (expected,) = get_args(kind.model_fields["type"].annotation)
            raise TypeError(f"{self.id}: found the method {self.method.type}, expected {expected}")
        return self.method

    @property
    def is_stepwise(self) -> bool:
        """Whether each step of an agent gets a verdict, with the levels as labels."""
        return self.method.is_stepwise

    @property
    def hears_audio(self) -> bool:
        """Whether its judge gets the sound of a transcript."""
        return isinstance(self.method, JudgeMethod) and self.method.hears_audio

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """Levels, worst first; by default fail 0 and pass 1.

        Default for steps: wrong 0, partial 0.5 and right 1. For a preference: worse 0, same 0.5 and better 1.
        """
        if self.is_stepwise and not (self.levels or self.scale):
            return step_levels()
        if isinstance(self.method, PreferenceMethod):
            return preference_levels()
        return rank_levels(self.levels, self.scale)

    @property
    def own_weight(self) -> float:
        """Weight of the criterion itself, without its categories' weights: 0 for a gate, by default 1."""
        if self.gate:
            return 0.0
        return 1.0 if self.weight is None else self.weight

    @property
    def gate_threshold(self) -> float:
        """Score that passes this gate: its threshold, or the best level's score."""
        return self.ranked_levels[-1].score if self.threshold is None else self.threshold


class CaseCriterion(Criterion):
    """Per-case criterion, given by a row; only `id`, `description` and `method` are required."""

    id: Annotated[str, Field(pattern=OWN_ID_PATTERN)]
    """letters, digits, `_`, `.`, `:`, `-`, up to 64, first a letter"""
    levels: Annotated[tuple[Level, ...], Field(fail_fast=True)] = ()
    """as those of a rubric's criterion"""

    @model_validator(mode="after")
    def _applies_to_its_output(self) -> Self:
        if not self.required:
            message = (
                "found false on a per-case criterion, expected true: leave it out of the rows it does not apply to"
            )
            raise ModelFault("wrong-value", message, "required")
        if self.applies is not None:
            expected = "expected none: leave it out of the rows it does not apply to"
            message = f"found a condition on a per-case criterion, {expected}"
            raise ModelFault("wrong-value", message, "applies")
        if self.max_failure_rate is not None:
            message = (
                f"found {self.max_failure_rate:g} on a per-case criterion, expected one gate of the rubric with it"
            )
            raise ModelFault("wrong-value", message, "max_failure_rate")
        if self.is_stepwise:
            message = "found step on a per-case criterion, expected output: a criterion of steps is one of the rubric"
            raise ModelFault("wrong-value", message, "method", "unit")
        return self

    @property
    def _needs_levels(self) -> bool:
        return False


class Category(Frozen):
    """Group of criteria with a weight of its own; categories may be nested."""

    id: CategoryName
    """name for a criterion's `category` and a category's `parent`"""
    weight: Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)] = 1
    """above 0; weight among its siblings, the categories and criteria next to it"""
    parent: CategoryName | None = None
    """enclosing category; default: none, at the top"""
    name: str | None = None
    """for people"""
    description: str = ""
    """for people"""
    rationale: str | None = None
    """reason for the weight; for people"""
    metadata: dict[str, Any] = {}
    """any mapping; stored with the version"""


OVERALL = "overall"  # id in ratings of the optional overall row, which belongs to no criterion


class Overall(Frozen):
    """Optional overall rating by people: stored, and not part of any score."""

    label: str | None = None
    """its name on a form"""
    description: str = ""
    """its question"""
    levels: tuple[Level, ...] = ()
    """as for a criterion"""
    scale: Scale | None = None
    """as for a criterion"""
    required: bool = True
    """whether a sheet can't be submitted without it"""

    @model_validator(mode="after")
    def _levels_make_a_scale(self) -> Self:
        refuse_bad_levels(self.levels, self.scale)
        return self

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """Levels, worst first; by default fail 0 and pass 1."""
        return rank_levels(self.levels, self.scale)


class Notes(Frozen):
    """Free text that people may add to an output."""

    label: str | None = None
    """its name on a form"""
    placeholder: str | None = None
    """placeholder of the empty field"""


class Rubric(Frozen):
    """Versioned set of criteria; immutable once used by a run."""

    id: Identifier
    """lower-case letters, digits, `_`, up to 64, first a letter"""
    version: Annotated[str, Field(pattern=VERSION_PATTERN)]
    """three numbers, `1.0.0`"""
    name: str | None = None
    """for people"""
    description: str = ""
    """for people"""
    owner: str | None = None
    """for people"""
    target_type: str | None = None
    """kind of output: `support_reply`, `speech`, `plan`; for people"""
    pass_threshold: Share | None = None
    """0..1: score with which an output passes, and mean that a model has to reach; default: only gates count"""
    require_thresholds: bool = False
    """`true`: an output passes only if each criterion also meets its own threshold; default `false`"""
    decide: Literal["interval", "point"] | None = None
    """`interval`: a model may ship if the ends of intervals show it; `point`, the default: if its estimates do"""
    alpha: Annotated[float, Field(gt=0, le=0.25)] = ALPHA
    """with `decide: interval`: how often a model at the limit of a requirement may ship by chance; default 0.025"""
    max_failure_rate: Annotated[float, Field(gt=0, lt=1)] = MAX_FAILURE_RATE
    """with `decide: interval`: the failure rate that a gate has to be shown to stay under; default 0.05"""
    missing: Literal["null", "skip", "zero"] = "null"
    """effect of a missing verdict on an output's score. `null`, the default: no score, only bounds (`score_low`,
    `score_high`). `skip`: the other criteria are reweighted. `zero`: it counts as 0"""
    weights: Literal["cases", "outputs"] = "cases"
    """what counts once in a model's means and rates where cases have unlike numbers of outputs: `cases`, the default,
    so that a case with ten samples counts like one with two; `outputs`: each output"""
    reviewed: Annotated[str, Field(pattern=DAY_PATTERN)] | None = None
    """day on which people last looked at the weights, `2026-11-29`; lint reminds of it after 180 days"""
    weight_sum: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """intended sum of the weights (with `categories`, of each group), checked by lint"""
    categories: tuple[Category, ...] = ()
    """groups with a weight each; a group's score is the weighted mean of its contents"""
    criteria: tuple[Criterion, ...] = Field(json_schema_extra={"minItems": 1})
    """at least one"""
    taxonomy: GivenTaxonomy | None = None
    """errors that steps of agents may have: `trail`, `mast`, or `types` and `severities` of your own; see below"""
    overall: Overall | None = None
    """optional overall rating by people"""
    notes: Notes | None = None
    """free text by people"""
    schemas: dict[str, dict[str, Any]] = Field(default={}, json_schema_extra=_SCHEMA_OR_FILE)
    """name: a JSON Schema, or a `.json` or `.yaml` file below the rubric's folder; the method `schema` may refer to it
    with `$ref`"""
    metadata: dict[str, Any] = {}
    """any mapping; stored with the version"""

    @field_validator("missing", mode="before")
    @classmethod
    def _bare_null(cls, value: Any) -> Any:
        """Read a bare `missing: null`, which YAML parses as nothing, as the word."""
        return "null" if value is None else value

    @field_validator("schemas")
    @classmethod
    def _schemas_have_plain_names(cls, schemas: dict[str, Any]) -> dict[str, Any]:
        for name in schemas:
            if not re.fullmatch(SCHEMA_NAME_PATTERN, name):
                expected = "letters, digits, _, . and -, a letter or digit first, at most 64"
                raise ModelFault("unsafe-schema", f"found the name {name[:80]!r}, expected {expected}")
        return schemas

    @model_validator(mode="after")
    def _criteria_are_distinct_and_weighted(self) -> Self:
        counts = Counter(criterion.id for criterion in self.criteria)
        twice = sorted(criterion_id for criterion_id, count in counts.items() if count > 1)
        if twice:
            raise ModelFault(
                "repeated-id", f"found {', '.join(twice)} more than once, expected each id once", "criteria"
            )
        weighted = [criterion for criterion in self.criteria if not criterion.gate]
        if weighted and not any(criterion.own_weight > 0 for criterion in weighted):
            message = "found a weight sum of 0, expected at least one criterion with a weight above 0"
            raise ModelFault("no-weight", message, "criteria")
        return self

    @model_validator(mode="after")
    def _overall_is_no_criterion(self) -> Self:
        if self.overall and "overall" in [criterion.id for criterion in self.criteria]:
            raise ModelFault("repeated-id", "found a criterion of that id too, expected one of them", "overall")
        return self

    @model_validator(mode="after")
    def _categories_are_a_tree(self) -> Self:
        if fault := tree_fault(self):
            field, message = fault
            raise ModelFault("category-tree", message, field)
        return self

    @model_validator(mode="after")
    def _optional_criteria_are_skipped_in_a_tree(self) -> Self:
        optional = [criterion.id for criterion in self.criteria if not criterion.required]
        conditional = [criterion.id for criterion in self.criteria if criterion.applies is not None]
        for key, ids in (("required: false", optional), ("applies", conditional)):
            if self.categories and ids and self.missing != "skip":
                message = f"found {self.missing} with categories and `{key}` on {', '.join(ids)}, expected skip"
                raise ModelFault("wrong-value", message, "missing")
        return self

    @property
    def judged_criteria(self) -> tuple[Criterion, ...]:
        """Criteria with the method `judge` and one verdict an output, in order."""
        return tuple(criterion for criterion in self.criteria if criterion.method.kind == "judge")

    @property
    def asked_criteria(self) -> tuple[Criterion, ...]:
        """Criteria that a judge scores in any way: also by claims, steps or preferences, in order."""
        return tuple(criterion for criterion in self.criteria if criterion.method.is_asked)

    @property
    def conditional_criteria(self) -> tuple[Criterion, ...]:
        """Criteria that apply to some outputs only, by a condition, in order."""
        return tuple(criterion for criterion in self.criteria if criterion.applies is not None)

    @property
    def stepwise_criteria(self) -> tuple[Criterion, ...]:
        """Criteria for which a judge labels each step, in order."""
        return tuple(criterion for criterion in self.criteria if criterion.method.kind == "steps")

    def penalties_of(self, criterion: Criterion) -> Mapping[str, float] | None:
        """Points that an error of each severity subtracts on a criterion of steps; None if only labels are scored."""
        penalties = criterion.method.penalties if isinstance(criterion.method, JudgeMethod | RatingsMethod) else None
        return penalties or (self.taxonomy.severities if self.taxonomy else None)

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs that a run needs to score every criterion: a judge, columns of the rows, raters, own functions."""
        needed = frozenset[str]().union(*(criterion.method.needs for criterion in self.criteria))
        return tuple(name for name in NEEDS if name in needed)

    def criterion(self, criterion_id: str) -> Criterion:
        """Find a criterion by id. Raises `KeyError`."""
        return {criterion.id: criterion for criterion in self.criteria}[criterion_id]

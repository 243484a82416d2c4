"""The rubric: criteria with levels, a method each, and a weight or a gate; categories that hold them in a tree."""

import re
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from gradebook.rubrics.errors import ModelFault
from gradebook.rubrics.levels import Frozen, Level, Scale, Share, rank_levels, refuse_bad_levels
from gradebook.rubrics.methods import JudgeMethod, Method
from gradebook.rubrics.weights import tree_fault

LARGEST_WEIGHT = 1_000_000
SMALLEST_WEIGHT = 1e-6  # sums of weights and scores are exact to 15 decimals
ID_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
OWN_ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_.:-]{0,63}$"  # of a criterion that a row brings along
_NUMBER = "(0|[1-9][0-9]{0,8})"
VERSION_PATTERN = rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}$"

SCHEMA_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_SCHEMA_OR_FILE: dict[str, Any] = {"additionalProperties": {"type": ["object", "string"]}}

Identifier = Annotated[str, Field(pattern=ID_PATTERN)]
CategoryName = Annotated[str, Field(min_length=1, max_length=64)]
Weight = Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]


class Criterion(Frozen):
    """One question asked of every output."""

    id: Identifier
    """lower-case letters, digits, `_`, up to 64, first a letter"""
    description: Annotated[str, Field(min_length=1)]
    """the question that the judge is asked"""
    method: Method
    """see below"""
    name: str | None = None
    """for people"""
    category: CategoryName | None = None
    """groups criteria in `category_scores`; with `categories`, one of their ids"""
    weight: Weight | None = None
    """1 where it is not given; only the ratio of weights counts. Below 0 a penalty: its top level is what is bad"""
    rationale: str | None = None
    """why it weighs what it weighs; for people"""
    gate: bool = False
    """`true`: no weight; failing it fails the output, whatever its score"""
    threshold: Share | None = None
    """0..1: from this score on the criterion is met; a gate without one needs its best level"""
    levels: tuple[Level, ...] = ()
    """two or more; `judge` and `ratings` need them, or a `scale`; the others have fail 0 and pass 1"""
    scale: Scale | None = None
    """numbered points in the place of `levels`; see below"""
    metadata: dict[str, Any] = {}
    """any mapping; kept with the version"""

    @model_validator(mode="after")
    def _levels_make_a_scale(self) -> Self:
        refuse_bad_levels(self.levels, self.scale)
        if self._needs_levels and not self.levels and not self.scale:
            words = f"levels: found none, expected at least two for the method {self.method.type}"
            raise ModelFault("no-levels", words)
        return self

    @model_validator(mode="after")
    def _examples_have_its_levels(self) -> Self:
        known = [level.id for level in self.ranked_levels]
        for index, example in enumerate(self.method.examples if isinstance(self.method, JudgeMethod) else ()):
            if example.level not in known:
                expected = f"expected one of {', '.join(known)}"
                raise ModelFault(
                    "wrong-example", f"method.examples[{index}].level: found {example.level!r}, {expected}"
                )
        return self

    @model_validator(mode="after")
    def _weight_fits(self) -> Self:
        if self.gate and self.weight is not None:
            words = f"weight: found {self.weight:g} on a gate, expected a gate without a weight, or gate: false"
            raise ModelFault("gate-with-weight", words)
        if self.weight is not None and 0 < abs(self.weight) < SMALLEST_WEIGHT:
            words = f"weight: found {self.weight:g}, expected 0, or {SMALLEST_WEIGHT:f} or more on either side of it"
            raise ModelFault("wrong-value", words)
        if self.threshold is not None and self.weight is not None and self.weight < 0:
            words = f"threshold: found {self.threshold:g} on a penalty, expected none where the weight is below 0"
            raise ModelFault("penalty-with-threshold", words)
        return self

    @property
    def _needs_levels(self) -> bool:
        return self.method.type in ("judge", "ratings")

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """The levels, worst first; fail 0 and pass 1 where the rubric gives none."""
        return rank_levels(self.levels, self.scale)

    @property
    def gate_threshold(self) -> float:
        """The score that passes this gate: its threshold, else the best level's."""
        return self.ranked_levels[-1].score if self.threshold is None else self.threshold


class CaseCriterion(Criterion):
    """A criterion that a row brings along; only `id`, `description` and `method` are required."""

    id: Annotated[str, Field(pattern=OWN_ID_PATTERN)]
    """letters, digits, `_`, `.`, `:`, `-`, up to 64, first a letter"""

    @property
    def _needs_levels(self) -> bool:
        return False


class Category(Frozen):
    """A group of criteria with a weight of its own; categories may hold categories."""

    id: CategoryName
    """what a criterion's `category` and a category's `parent` name"""
    weight: Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)] = 1
    """above 0; what it counts among its siblings: the categories and criteria beside it"""
    parent: CategoryName | None = None
    """the category around it; none: it stands at the top"""
    name: str | None = None
    """for people"""
    description: str = ""
    """for people"""
    rationale: str | None = None
    """why it weighs what it weighs; for people"""
    metadata: dict[str, Any] = {}
    """any mapping; kept with the version"""


class Overall(Frozen):
    """A free overall row for people: it is rated and kept, and counts in no score."""

    label: str | None = None
    """its name on a form"""
    description: str = ""
    """what is asked"""
    levels: tuple[Level, ...] = ()
    """as a criterion's"""
    scale: Scale | None = None
    """as a criterion's"""

    @model_validator(mode="after")
    def _levels_make_a_scale(self) -> Self:
        refuse_bad_levels(self.levels, self.scale)
        return self

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """The levels, worst first; fail 0 and pass 1 where there are none."""
        return rank_levels(self.levels, self.scale)


class Notes(Frozen):
    """A free text that people may leave with an output."""

    label: str | None = None
    """its name on a form"""
    placeholder: str | None = None
    """what stands in the empty field"""


class Rubric(Frozen):
    """A versioned set of criteria; immutable once a run used it."""

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
    """what is evaluated: `support_reply`, `speech`, `plan`; for people"""
    pass_threshold: Share | None = None
    """0..1: the score with which an output passes, and the mean that a model has to reach; none: only gates count"""
    require_thresholds: bool = False
    """`true`: an output passes only if each criterion is at its own threshold too; `false` is the default"""
    missing: Literal["null", "skip", "zero"] = "null"
    """what a missing verdict does to an output's score. `null`, the default: it has none, only bounds (`score_low`,
    `score_high`). `skip`: the other criteria make it up. `zero`: it counts 0"""
    weight_sum: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """what the weights are meant to add up to (with `categories`, those of each group); lint holds them to it"""
    categories: tuple[Category, ...] = ()
    """groups with a weight each; a group's score is the weighted mean of what it holds"""
    criteria: tuple[Criterion, ...] = Field(json_schema_extra={"minItems": 1})
    """at least one"""
    overall: Overall | None = None
    """a free overall row for people"""
    notes: Notes | None = None
    """a free text for people"""
    schemas: dict[str, dict[str, Any]] = Field(default={}, json_schema_extra=_SCHEMA_OR_FILE)
    """name: a JSON Schema, or a `.json` or `.yaml` file of one below the rubric's folder; a `$ref` in the method
    `schema` may name it"""
    metadata: dict[str, Any] = {}
    """any mapping; kept with the version"""

    @field_validator("missing", mode="before")
    @classmethod
    def _bare_null(cls, value: Any) -> Any:
        """YAML reads a bare `missing: null` as nothing; it means the word."""
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
            raise ModelFault("repeated-id", f"criteria: found {', '.join(twice)} more than once, expected each id once")
        weighted = [criterion for criterion in self.criteria if not criterion.gate]
        if weighted and not any(self.weight_of(criterion) > 0 for criterion in weighted):
            words = "criteria: found a weight sum of 0, expected at least one criterion with a weight above 0"
            raise ModelFault("no-weight", words)
        return self

    @model_validator(mode="after")
    def _overall_is_no_criterion(self) -> Self:
        if self.overall and "overall" in [criterion.id for criterion in self.criteria]:
            raise ModelFault("repeated-id", "overall: found a criterion of that id too, expected one of them")
        return self

    @model_validator(mode="after")
    def _categories_are_a_tree(self) -> Self:
        fault = tree_fault(self)
        if fault:
            raise ModelFault("category-tree", fault)
        return self

    @property
    def judged_criteria(self) -> tuple[Criterion, ...]:
        """Those that a judge is asked, in order."""
        return tuple(criterion for criterion in self.criteria if criterion.method.type == "judge")

    def weight_of(self, criterion: Criterion) -> float:
        """The criterion's weight: 0 for a gate, 1 where the rubric names none."""
        if criterion.gate:
            return 0.0
        return 1.0 if criterion.weight is None else criterion.weight

    def criterion(self, criterion_id: str) -> Criterion:
        """The criterion of that id; KeyError where there is none."""
        return {criterion.id: criterion for criterion in self.criteria}[criterion_id]

"""Marks of an agent's steps: labels, errors by a taxonomy of types and severities, and the score from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any, NamedTuple, Self

import yaml
from pydantic import BeforeValidator, Field, model_validator

from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.levels import LEVEL_ID_PATTERN, Frozen, Level

SHIPPED_TAXONOMIES = ("mast", "trail")
START = 100.0  # points of a trajectory without errors
MOST_KINDS = 500  # types and subtypes: all are shown with each question to a judge
DEFAULT_PENALTIES: dict[str, float] = {
    "minor": 1,
    "major": 5,
    "critical": 10,
}  # severity -> penalty, as in Potato's `trajectory_eval`
STEP_LABELS = (("wrong", 0.0), ("partial", 0.5), ("right", 1.0))
Penalty = Annotated[float, Field(ge=0, le=START)]
Severity = Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]


class ErrorKind(Frozen):
    """Subtype of an error."""

    id: Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]
    """letters, digits, `_`, `.`, `-`"""
    name: str | None = None
    """its name on pages and in other systems' files"""
    description: str = ""
    """what counts as this error; for the judge and for people"""

    @property
    def label(self) -> str:
        """Name for people."""
        return self.name or self.id.replace("_", " ")


class ErrorType(ErrorKind):
    """Type of error, with its subtypes."""

    subtypes: tuple[ErrorKind, ...] = ()
    """kinds of this error, each with `id`, and optionally `name` and `description`"""


class NamedError(NamedTuple):
    """Error of a taxonomy by its ids. error_subtype: None if the type has no subtypes, or only the type is known."""

    error_type: str
    error_subtype: str | None

    @property
    def path(self) -> str:
        """`type/subtype`, or the type alone."""
        return "/".join(word for word in self if word)


class Taxonomy(Frozen):
    """Types of error with the penalties of severities."""

    types: Annotated[tuple[ErrorType, ...], Field(min_length=1)]
    """types of error, each with `id`, and optionally `name`, `description` and `subtypes`"""
    severities: dict[Severity, Penalty] = Field(default=DEFAULT_PENALTIES, min_length=1)
    """severity: points, out of 100, that an error of it takes; default minor 1, major 5, critical 10"""

    @model_validator(mode="after")
    def _kinds_are_distinct(self) -> Self:
        for kinds in (self.types, *(error_type.subtypes for error_type in self.types)):
            ids = [kind.id for kind in kinds]
            if len(ids) != len(set(ids)):
                raise ModelFault("repeated-id", f"found the ids {', '.join(ids)}, expected each id once", "types")
        if len(self.kinds) > MOST_KINDS:
            raise ModelFault("wrong-value", f"found {len(self.kinds)} kinds, expected at most {MOST_KINDS}", "types")
        return self

    @property
    def kinds(self) -> tuple[NamedError, ...]:
        """All kinds of error: each subtype, and each type without subtypes."""
        return tuple(
            NamedError(error_type.id, kind.id if kind else None)
            for error_type in self.types
            for kind in error_type.subtypes or (None,)
        )

    def find(self, error_type: str | None, error_subtype: str | None = None) -> NamedError | None:
        """Find an error by ids or names, ignoring case: a type, a subtype, `type/subtype` or `type::subtype`.

        None for an unknown name, and for a name of several errors.
        """
        names = [error_type, error_subtype] if error_subtype else (error_type or "").replace("::", "/").split("/")
        errors = _names_of(self.types).get(tuple(map(folded_name, names)), ())
        return errors[0] if len(errors) == 1 else None


@cache
def _names_of(types: tuple[ErrorType, ...]) -> dict[tuple[str, ...], tuple[NamedError, ...]]:
    """Errors by folded names of the type, the subtype, or both."""
    names: dict[tuple[str, ...], tuple[NamedError, ...]] = {}

    def add(error: NamedError, *path: str) -> None:
        names[path] = tuple(dict.fromkeys([*names.get(path, ()), error]))

    for error_type in types:
        of_type = {folded_name(error_type.id), folded_name(error_type.label)}
        for word in of_type:
            add(NamedError(error_type.id, None), word)
        for kind in error_type.subtypes:
            error = NamedError(error_type.id, kind.id)
            for word in {folded_name(kind.id), folded_name(kind.label)}:
                for above in of_type:
                    add(error, above, word)
                if (word,) not in names or word not in of_type:
                    add(error, word)
    return names


def folded_name(word: str | None) -> str:
    """Name in lower case, with single blanks for separators."""
    return " ".join((word or "").replace("_", " ").replace("-", " ").casefold().split())


def named_taxonomy(value: Any) -> Any:
    """Content of a shipped taxonomy by its name; other values unchanged. Raises `ModelFault` for an unknown name."""
    if not isinstance(value, str):
        return value
    if value not in SHIPPED_TAXONOMIES:
        message = f"found {value[:80]!r}, expected one of {', '.join(SHIPPED_TAXONOMIES)}, or types and severities"
        raise ModelFault("wrong-value", message)
    file = resources.files("gradebook.rubrics") / "definitions" / "taxonomies" / f"{value}.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))


class StepMark(NamedTuple):
    """Label of a step, and the error of a wrong step. label: id of a level; step: its number, or a span's id."""

    step: str
    label: str
    score: float
    error_type: str | None = None
    error_subtype: str | None = None
    severity: str | None = None
    rationale: str | None = None


def points_of(mark: StepMark, penalties: Mapping[str, float]) -> float | None:
    """Penalty points of a mark's error: by `type/severity`, as in MQM, else by severity; None if neither is listed."""
    return penalties.get(f"{mark.error_type}/{mark.severity}", penalties.get(mark.severity or ""))


def ranked_severities(penalties: Mapping[str, float]) -> tuple[str, ...]:
    """Severities from slight to grave, without duplicates; from `type/severity` the severity."""
    ranked = sorted(penalties, key=lambda name: penalties[name])
    return tuple(dict.fromkeys(name.rpartition("/")[2] for name in ranked))


def score_steps(marks: Sequence[StepMark], penalties: Mapping[str, float] | None) -> float | None:
    """Score of an output from the marks of its steps, 0..1.

    penalties: max(0, 100 - sum of the errors' penalties) / 100, so 1 without errors. None: the mean of the labels'
    scores, None without marks.
    """
    if penalties is not None:
        return max(0.0, START - sum(points_of(mark, penalties) or 0.0 for mark in marks)) / START
    return sum(mark.score for mark in marks) / len(marks) if marks else None


def describe_steps(marks: Sequence[StepMark], penalties: Mapping[str, float] | None) -> str:
    """Text on the errors: "step 3: tool / wrong_tool (major, -5)"; without errors, the step count, or "no errors"."""
    errors = [_error_text(mark, penalties or {}) for mark in marks if mark.error_type or mark.severity]
    if errors:
        return "; ".join(errors)
    if not marks:
        return "no errors"
    counts = Counter(mark.label for mark in marks)
    return ", ".join(f"{count} {label}" for label, count in counts.items())


def _error_text(mark: StepMark, penalties: Mapping[str, float]) -> str:
    kind = " / ".join(word for word in (mark.error_type, mark.error_subtype) if word) or mark.label
    points = points_of(mark, penalties)
    cost = ", ".join([*([mark.severity] if mark.severity else []), *([] if points is None else [f"-{points:g}"])])
    return f"step {mark.step}: {kind}" + (f" ({cost})" if cost else "")


GivenTaxonomy = Annotated[Taxonomy, BeforeValidator(named_taxonomy)]


@cache
def step_levels() -> tuple[Level, ...]:
    """Default labels of a step, worst first."""
    return tuple(Level(id=label, score=score) for label, score in STEP_LABELS)

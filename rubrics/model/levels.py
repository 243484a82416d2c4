"""Levels of a criterion: listed, or generated from a numbered scale."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gradebook.rubrics.model.errors import ModelFault

MOST_LEVELS = 101  # 0 to 100
LONGEST_POINT = 15  # characters; numbers with this many digits are distinct as floats
LEVEL_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
MOST_SHOWN = 40  # characters of a point in a message
PASS_OR_FAIL = (("fail", 0.0), ("pass", 1.0))
WORSE, SAME, BETTER = "worse", "same", "better"
PREFERENCE_LEVELS = ((WORSE, 0.0), (SAME, 0.5), (BETTER, 1.0))

_POINT = re.compile(r"[0-9]+(\.[0-9]+)?")
_POINT_EXPECTED = f"a number, 0 or more, in at most {LONGEST_POINT} digits"

Share = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    """Base of all models of a rubric file; the docstring of a field is its description, for docs and editors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def number_as_text(value: Any) -> Any:
    """Convert a whole number to text, so that `id: 1` means "1", as in scales. A bool (YAML's yes/no) remains a
    fault.
    """
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Level(Frozen):
    """One level of a criterion."""

    id: Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]
    """letters, digits, `_`, `.`, `-`; may be a whole number"""
    score: Share
    """0..1"""
    label: str | None = None
    """short name, shown to the judge before the description"""
    description: str = ""
    """description of an output at this level"""
    indicators: tuple[str, ...] = ()
    """list of signs of this level"""

    @field_validator("id", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return number_as_text(value)


class Scale(Frozen):
    """Numbered points instead of levels: each point is a level, the lowest scores 0, the highest 1."""

    min: Annotated[int, Field(ge=0)] | None = None
    """lowest point; with `max`, every whole number in between is a point"""
    max: Annotated[int, Field(ge=1)] | None = None
    """highest point"""
    points: dict[str, str] = {}
    """point: description of an output at this point. Without `min` and `max`, these are the points"""
    labels: dict[str, str] = {}
    """point: its short name"""

    @field_validator("points", "labels", mode="before")
    @classmethod
    def _numbers_as_text(cls, value: Any) -> Any:
        return {_as_text(point): text for point, text in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _points_are_a_scale(self) -> Self:
        if (self.min is None) != (self.max is None):
            raise ModelFault("wrong-scale", "found one of min and max, expected both or none")
        self._refuse_strange_points()
        if len({float(point) for point in self.points}) < len(self.points):
            raise ModelFault("wrong-scale", f"found {', '.join(self.points)}, expected each number once", "points")
        numbers = self._numbers()
        if not 2 <= len(numbers) <= MOST_LEVELS:
            noun = "point" if len(numbers) == 1 else "points"
            raise ModelFault("wrong-scale", f"found {len(numbers):,} {noun}, expected 2 to {MOST_LEVELS}")
        for name, mapping in (("points", self.points), ("labels", self.labels)):
            strange = [point for point in mapping if point not in numbers]
            if strange:
                message = f"found the point {_shortened(strange[0])}, expected one of {', '.join(numbers)}"
                raise ModelFault("wrong-scale", message, name)
        return self

    def _refuse_strange_points(self) -> None:
        """Refuse points that cannot serve both as a level's id and as a number."""
        for name, end in (("min", self.min), ("max", self.max)):
            if end is not None and end >= 10**LONGEST_POINT:
                message = f"found a number of more than {LONGEST_POINT} digits, expected {_POINT_EXPECTED}"
                raise ModelFault("wrong-scale", message, name)
        for point in self.points:
            if len(point) > LONGEST_POINT or not _POINT.fullmatch(point):
                raise ModelFault("wrong-scale", f"found {_shortened(point)!r}, expected {_POINT_EXPECTED}", "points")

    @property
    def levels(self) -> tuple[Level, ...]:
        """One level per point, worst first, with the score (point - lowest) / (highest - lowest)."""
        numbers = self._numbers()
        lowest, highest = float(numbers[0]), float(numbers[-1])
        return tuple(
            Level(
                id=point,
                score=(float(point) - lowest) / (highest - lowest),
                label=self.labels.get(point),
                description=self.points.get(point, ""),
            )
            for point in numbers
        )

    def _numbers(self) -> list[str]:
        if self.min is not None and self.max is not None:
            if self.max - self.min > MOST_LEVELS:
                raise ModelFault("wrong-scale", f"found {self.max}, expected at most {MOST_LEVELS} points", "max")
            return [str(point) for point in range(self.min, self.max + 1)]
        return sorted(self.points, key=float)


def _as_text(point: Any) -> Any:
    if isinstance(point, float):
        return f"{point:.{LONGEST_POINT}g}"  # 2.0 is the point 2
    return str(point) if isinstance(point, int) and not isinstance(point, bool) else point


def _shortened(point: str) -> str:
    return point if len(point) <= MOST_SHOWN else f"{point[:MOST_SHOWN]}..."


def place_score(levels: Sequence[Level], score: float) -> tuple[str, dict[str, float]]:
    """Id of the level nearest to a score, and the distribution over its two neighbouring levels with this mean.

    levels: worst first. Raises `ValueError` for a score outside their range, or NaN.
    """
    lowest, highest = levels[0].score, levels[-1].score
    if not lowest <= score <= highest:
        raise ValueError(f"found the score {score:g}, expected {lowest:g} to {highest:g}")
    below = max((level for level in levels if level.score <= score), key=lambda level: level.score)
    above = min((level for level in levels if level.score >= score), key=lambda level: level.score)
    if above.score == below.score:
        return below.id, {below.id: 1.0}
    share = (score - below.score) / (above.score - below.score)
    return (below if share < 0.5 else above).id, {below.id: 1.0 - share, above.id: share}


@cache
def pass_or_fail() -> tuple[Level, ...]:
    """Levels of a criterion that names none: fail and pass."""
    return tuple(Level(id=level_id, score=score) for level_id, score in PASS_OR_FAIL)


@cache
def preference_levels() -> tuple[Level, ...]:
    """Levels of an output compared with another answer to its case."""
    return tuple(Level(id=level_id, score=score) for level_id, score in PREFERENCE_LEVELS)


def rank_levels(levels: tuple[Level, ...], scale: Scale | None) -> tuple[Level, ...]:
    """Levels of a criterion, worst first; by default fail 0 and pass 1."""
    unranked = scale.levels if scale else levels or pass_or_fail()
    return tuple(sorted(unranked, key=lambda level: level.score))


def refuse_bad_levels(levels: tuple[Level, ...], scale: Scale | None) -> None:
    """Raise `ModelFault` for a single level, a repeated id, or levels together with a scale."""
    ids = [level.id for level in levels]
    if len(ids) != len(set(ids)):
        raise ModelFault("repeated-id", f"found the ids {', '.join(ids)}, expected each id once", "levels")
    if len(ids) == 1:
        raise ModelFault("no-levels", f"found one level, {ids[0]}, expected at least two", "levels")
    if ids and scale:
        raise ModelFault("wrong-scale", "found levels and a scale, expected one of them", "scale")

"""The steps of a criterion: levels written out, or a numbered scale that stands for them."""

import re
from functools import cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gradebook.rubrics.model.errors import ModelFault

MOST_LEVELS = 101  # 0 to 100
LONGEST_POINT = 15  # characters; numbers of so many digits stay apart as floats
LEVEL_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
MOST_SHOWN = 40  # characters of a point in a message
PASS_OR_FAIL = (("fail", 0.0), ("pass", 1.0))

_POINT = re.compile(r"[0-9]+(\.[0-9]+)?")
_POINT_WORDS = f"a number, 0 or more, in at most {LONGEST_POINT} digits"

Share = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    """The base of everything that a rubric file holds; the text under a field is its meaning, for docs and editors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, use_attribute_docstrings=True)


def number_as_text(value: Any) -> Any:
    """Let `id: 1` stand for "1": scales are written so. A bool is YAML's yes/no trap and stays a fault."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Level(Frozen):
    """One step of a criterion."""

    id: Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]
    """letters, digits, `_`, `.`, `-`; a whole number will do"""
    score: Share
    """0..1"""
    label: str | None = None
    """a short name, shown to the judge before the description"""
    description: str = ""
    """what an output of this level is like"""
    indicators: tuple[str, ...] = ()
    """a list of signs of this level"""

    @field_validator("id", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return number_as_text(value)


class Scale(Frozen):
    """Numbered points instead of levels: each point is a level, the lowest scores 0, the highest 1."""

    min: Annotated[int, Field(ge=0)] | None = None
    """the lowest point; with `max`, every whole number between them is a point"""
    max: Annotated[int, Field(ge=1)] | None = None
    """the highest point"""
    points: dict[str, str] = {}
    """point: what an output of this point is like. Without `min` and `max`, these are the points"""
    labels: dict[str, str] = {}
    """point: its short name"""

    @field_validator("points", "labels", mode="before")
    @classmethod
    def _numbers_as_text(cls, value: Any) -> Any:
        return {_as_text(point): words for point, words in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _points_are_a_scale(self) -> Self:
        if (self.min is None) != (self.max is None):
            raise ModelFault("wrong-scale", "found one of min and max, expected both or none")
        self._refuse_strange_points()
        if len({float(point) for point in self.points}) < len(self.points):
            raise ModelFault("wrong-scale", f"points: found {', '.join(self.points)}, expected each number once")
        numbers = self._numbers()
        if not 2 <= len(numbers) <= MOST_LEVELS:
            raise ModelFault("wrong-scale", f"found {len(numbers)} points, expected 2 to {MOST_LEVELS}")
        for name, given in (("points", self.points), ("labels", self.labels)):
            strange = [point for point in given if point not in numbers]
            if strange:
                words = f"{name}: found the point {_cut(strange[0])}, expected one of {', '.join(numbers)}"
                raise ModelFault("wrong-scale", words)
        return self

    def _refuse_strange_points(self) -> None:
        """Each point becomes a level's id and a number between 0 and 1, so it has to be fit for both."""
        for name, end in (("min", self.min), ("max", self.max)):
            if end is not None and end >= 10**LONGEST_POINT:
                words = f"{name}: found a number of more than {LONGEST_POINT} digits, expected {_POINT_WORDS}"
                raise ModelFault("wrong-scale", words)
        for point in self.points:
            if len(point) > LONGEST_POINT or not _POINT.fullmatch(point):
                raise ModelFault("wrong-scale", f"points: found {_cut(point)!r}, expected {_POINT_WORDS}")

    @property
    def levels(self) -> tuple[Level, ...]:
        """A level a point, worst first; (point - lowest) / (highest - lowest) is its score."""
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
                raise ModelFault("wrong-scale", f"max: found {self.max}, expected at most {MOST_LEVELS} points")
            return [str(point) for point in range(self.min, self.max + 1)]
        return sorted(self.points, key=float)


def _as_text(point: Any) -> Any:
    if isinstance(point, float):
        return f"{point:.{LONGEST_POINT}g}"  # 2.0 is the point 2
    return str(point) if isinstance(point, int) and not isinstance(point, bool) else point


def _cut(point: str) -> str:
    return point if len(point) <= MOST_SHOWN else f"{point[:MOST_SHOWN]}..."


@cache
def pass_or_fail() -> tuple[Level, ...]:
    """The levels of a criterion that names none."""
    return tuple(Level(id=level_id, score=score) for level_id, score in PASS_OR_FAIL)


def rank_levels(levels: tuple[Level, ...], scale: Scale | None) -> tuple[Level, ...]:
    """The levels of a criterion, worst first; fail 0 and pass 1 where it names none."""
    given = scale.levels if scale else levels or pass_or_fail()
    return tuple(sorted(given, key=lambda level: level.score))


def refuse_bad_levels(levels: tuple[Level, ...], scale: Scale | None) -> None:
    """Raise `ModelFault` for levels that are no steps: one alone, an id twice, or a scale beside them."""
    ids = [level.id for level in levels]
    if len(ids) != len(set(ids)):
        raise ModelFault("repeated-id", f"levels: found the ids {', '.join(ids)}, expected each id once")
    if len(ids) == 1:
        raise ModelFault("no-levels", f"levels: found one level, {ids[0]}, expected at least two")
    if ids and scale:
        raise ModelFault("wrong-scale", "scale: found levels and a scale, expected one of them")

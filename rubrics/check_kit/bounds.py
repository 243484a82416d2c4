"""Bounds on a count: the settings and the resulting verdicts."""

from collections.abc import Callable, Mapping
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts
from gradebook.rubrics.check_kit.evidence import cut_text

Count = Annotated[int, Field(ge=0, strict=True)]


class CountSettings(CheckSettings):
    """Lower and upper bound, both inclusive."""

    min: Count | None = None
    """minimum allowed"""
    max: Count | None = None
    """maximum allowed"""

    @property
    def has_bounds(self) -> bool:
        """Whether there is a bound."""
        return self.min is not None or self.max is not None

    @property
    def ladder(self) -> Mapping[str, int] | None:
        """Lowest count of each level of the criterion."""
        return None

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Self:
        self.refuse_no_bounds()
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"found min {self.min} above max {self.max}, expected min <= max")
        return self

    def refuse_no_bounds(self) -> None:
        """Raise `ValueError` unless the settings say what passes."""
        if not self.has_bounds:
            raise ValueError("found neither min nor max, expected at least one bound")


class BoundsSettings(CountSettings):
    """Lower and upper bound, both inclusive, or the lowest count of each level."""

    levels: Annotated[Mapping[str, Count], Field(min_length=1)] | None = None
    """instead of `min` and `max`: the lowest number of each level of the criterion; the highest level reached is the
    verdict, or the criterion's lowest level if none is reached"""

    @property
    def ladder(self) -> Mapping[str, int] | None:
        """Lowest count of each level of the criterion."""
        return self.levels

    def refuse_no_bounds(self) -> None:
        """Raise `ValueError` unless the settings have bounds, or levels."""
        if self.has_bounds == (self.levels is not None):
            found = "bounds and levels" if self.has_bounds else "neither min, max nor levels"
            raise ValueError(f"found {found}, expected min or max, or levels")


def judge_counts(counts: pa.Int64Array, settings: CountSettings, unit: str, units: str) -> CheckVerdicts:
    """Compare each count with the bounds, or find its level.

    counts: (output,), no nulls. Evidence of a failure: "231 words, at most 200 allowed"; of a level: "231 words".
    """
    values = counts.to_numpy()
    if settings.ladder is not None:
        return _judge_levels(values, settings.ladder, unit, units)
    is_missed = np.zeros(len(values), np.bool_)
    if settings.min is not None:
        is_missed |= values < settings.min
    if settings.max is not None:
        is_missed |= values > settings.max
    evidence = pa.nulls(len(values), pa.string())
    if is_missed.any():
        missed = values[is_missed]
        texts = _texts(missed, lambda count: _describe_miss(count, settings, unit if count == 1 else units))
        evidence = pc.replace_with_mask(evidence, pa.array(is_missed), texts)
    return CheckVerdicts(pa.array(~is_missed), evidence)


def _judge_levels(values: NDArray[np.int64], levels: Mapping[str, int], unit: str, units: str) -> CheckVerdicts:
    ranked = sorted(levels, key=lambda level_id: levels[level_id])
    places = np.searchsorted([levels[level_id] for level_id in ranked], values, side="right") - 1
    is_reached = places >= 0
    level_ids = pa.array(ranked, pa.string()).take(pa.array(places, mask=~is_reached))
    evidence = _texts(values, lambda count: cut_text(f"{count} {unit if count == 1 else units}"))
    return CheckVerdicts(pa.array(is_reached), evidence, None, level_ids)


def _texts(values: NDArray[np.int64], describe: Callable[[int], str]) -> pa.StringArray:
    """Text of each count. Counts repeat a lot, so each distinct one gets its text once."""
    distinct, places = np.unique(values, return_inverse=True)
    return pa.array([describe(count) for count in distinct.tolist()], pa.string()).take(pa.array(places))


def _describe_miss(count: int, settings: CountSettings, units: str) -> str:
    is_many = settings.max is not None and count > settings.max
    limit = f"at most {settings.max} allowed" if is_many else f"at least {settings.min} required"
    return cut_text(f"{count} {units}, {limit}")

"""Checks that count or measure: one number per output, compared with bounds or mapped to levels."""

from collections.abc import Callable, Mapping
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts
from gradebook.rubrics.check_kit.columns import cut_text, evidence_where, join_texts

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
        """Raise `ValueError` unless the settings have bounds or levels."""
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
            present = "bounds and levels" if self.has_bounds else "neither min, max nor levels"
            raise ValueError(f"found {present}, expected min or max, or levels")


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
    indices = np.searchsorted([levels[level_id] for level_id in ranked], values, side="right") - 1
    is_reached = indices >= 0
    level_ids = pa.array(ranked, pa.string()).take(pa.array(indices, mask=~is_reached))
    evidence = _texts(values, lambda count: cut_text(f"{count} {unit if count == 1 else units}"))
    return CheckVerdicts(pa.array(is_reached), evidence, None, level_ids)


def _texts(values: NDArray[np.int64], describe: Callable[[int], str]) -> pa.StringArray:
    """Text of each count; made once per distinct count, as counts repeat a lot."""
    distinct, indices = np.unique(values, return_inverse=True)
    return pa.array([describe(count) for count in distinct.tolist()], pa.string()).take(pa.array(indices))


def _describe_miss(count: int, settings: CountSettings, units: str) -> str:
    is_many = settings.max is not None and count > settings.max
    limit = f"at most {settings.max} allowed" if is_many else f"at least {settings.min} required"
    return cut_text(f"{count} {units}, {limit}")


Measure = Annotated[float, Field(allow_inf_nan=False)]
SHOWN_DIGITS = 6  # decimal places


class MeasureSettings(CheckSettings):
    """Bounds on a measured number, both inclusive, or the lowest number of each level."""

    min: Measure | None = None
    """minimum that passes"""
    max: Measure | None = None
    """maximum that passes"""
    levels: Annotated[Mapping[str, Measure], Field(min_length=1)] | None = None
    """instead of `min` and `max`: the lowest number of each level of the criterion; the highest level reached is the
    verdict, or the criterion's lowest level if none is reached"""

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest valid bound; a bound outside is a mistake, such as a percentage for a share."""
        return float("-inf"), float("inf")

    @model_validator(mode="after")
    def _bounds_or_levels(self) -> Self:
        has_bounds = self.min is not None or self.max is not None
        if has_bounds == (self.levels is not None):
            present = "bounds and levels" if has_bounds else "neither min, max nor levels"
            raise ValueError(f"found {present}, expected min or max, or levels")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"found min {self.min:g} above max {self.max:g}, expected min <= max")
        lowest, highest = self.reach
        for name, bound in {"min": self.min, "max": self.max, **(self.levels or {})}.items():
            if bound is not None and not lowest <= bound <= highest:
                raise ValueError(f"found {name} {bound:g}, expected {lowest:g} to {highest:g}")
        return self


def judge_measures(
    values: pa.DoubleArray, settings: MeasureSettings, name: str, reasons: pa.StringArray | None = None
) -> CheckVerdicts:
    """Compare each number with the bounds, or find its level.

    values: (output,), null where nothing can be measured; NaN counts as null. reasons: (output,), the cause of each
    null. Evidence: "token F1 0.4286, at least 0.5 required", for a pass "token F1 0.75".
    """
    values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    texts = join_texts(f"{name} ", _rounded(values, settings).cast(pa.string()))
    if settings.levels is not None:
        level_ids = _highest_levels(values, settings.levels)
        is_passed = pc.if_else(values.is_valid(), level_ids.is_valid(), pa.scalar(None, pa.bool_()))
        return CheckVerdicts(is_passed, texts, reasons, level_ids)
    is_low = pc.less(values, settings.min) if settings.min is not None else _false_like(values)
    is_high = pc.greater(values, settings.max) if settings.max is not None else _false_like(values)
    missed = evidence_where(is_low, f", at least {_number(settings.min)} required")
    missed = pc.coalesce(missed, evidence_where(is_high, f", at most {_number(settings.max)} allowed"))
    return CheckVerdicts(pc.invert(pc.or_(is_low, is_high)), join_texts(texts, pc.fill_null(missed, "")), reasons)


def _rounded(values: pa.DoubleArray, settings: MeasureSettings) -> pa.DoubleArray:
    """Round values for display; a value that misses a bound keeps all digits if it would be rounded onto the bound."""
    least = (settings.levels or {}).values() if settings.min is None else [settings.min]
    sides = [(pc.less, bound) for bound in least] + [
        (pc.greater, bound) for bound in [settings.max] if bound is not None
    ]
    rounded = pc.round(values, SHOWN_DIGITS)
    for is_beyond, bound in sides:
        is_unchanged = pc.equal(is_beyond(values, bound), is_beyond(rounded, bound))
        rounded = pc.if_else(is_unchanged, rounded, values)
    return rounded


def _highest_levels(values: pa.DoubleArray, levels: Mapping[str, float]) -> pa.StringArray:
    """Highest level that each value reaches, null if none: (output,)."""
    reached = pa.nulls(len(values), pa.string())
    for level_id, least in sorted(levels.items(), key=lambda level: level[1]):
        is_reached = pc.fill_null(pc.greater_equal(values, least), False)
        reached = pc.if_else(is_reached, level_id, reached)
    return reached


def _false_like(values: pa.DoubleArray) -> pa.BooleanArray:
    return pc.if_else(values.is_valid(), False, pa.scalar(None, pa.bool_()))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"

"""Bounds on a count: the settings and the resulting verdicts."""

from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts
from gradebook.rubrics.check_kit.evidence import cut_text

Count = Annotated[int, Field(ge=0, strict=True)]


class BoundsSettings(CheckSettings):
    """Lower and upper bound, both inclusive; at least one is required."""

    min: Count | None = None
    """minimum allowed"""
    max: Count | None = None
    """maximum allowed"""

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("found neither min nor max, expected at least one bound")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"found min {self.min} above max {self.max}, expected min <= max")
        return self


def judge_counts(counts: pa.Int64Array, settings: BoundsSettings, unit: str, units: str) -> CheckVerdicts:
    """Compare each count with the bounds.

    counts: (output,), no nulls. Evidence of a failure: "231 words, at most 200 allowed".
    """
    values = counts.to_numpy()
    is_missed = np.zeros(len(values), np.bool_)
    if settings.min is not None:
        is_missed |= values < settings.min
    if settings.max is not None:
        is_missed |= values > settings.max
    evidence = pa.nulls(len(values), pa.string())
    if is_missed.any():
        # Counts repeat a lot, so each distinct one gets its text once, and Arrow copies it to its rows.
        missed, places = np.unique(values[is_missed], return_inverse=True)
        texts = [_describe_miss(count, settings, unit if count == 1 else units) for count in missed.tolist()]
        evidence = pc.replace_with_mask(evidence, pa.array(is_missed), pa.array(texts).take(pa.array(places)))
    return CheckVerdicts(pa.array(~is_missed), evidence)


def _describe_miss(count: int, settings: BoundsSettings, units: str) -> str:
    is_many = settings.max is not None and count > settings.max
    limit = f"at most {settings.max} allowed" if is_many else f"at least {settings.min} required"
    return cut_text(f"{count} {units}, {limit}")

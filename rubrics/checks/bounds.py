"""Bounds on a count: the settings, and the verdicts they lead to."""

from typing import Annotated, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from rubrics.checks.evidence import evidence_where, join_texts
from rubrics.checks.registry import CheckSettings, CheckVerdicts

Count = Annotated[int, Field(ge=0, strict=True)]


class BoundsSettings(CheckSettings):
    """The least and the most allowed, both inclusive; at least one of them is given."""

    min: Count | None = None
    """the least allowed"""
    max: Count | None = None
    """the most allowed"""

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("found neither min nor max, expected at least one bound")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"found min {self.min} above max {self.max}, expected min <= max")
        return self


def judge_counts(counts: pa.Int64Array, settings: BoundsSettings, unit: str, units: str) -> CheckVerdicts:
    """Hold each count against the bounds. counts: (output,). A miss says "231 words, at most 200 allowed"."""
    is_few = pc.less(counts, 0 if settings.min is None else settings.min)
    is_many = pc.greater(counts, settings.max) if settings.max is not None else pa.repeat(False, len(counts))
    is_missed = pc.or_(is_few, is_many)
    limits = pc.if_else(
        is_many.filter(is_missed), f", at most {settings.max} allowed", f", at least {settings.min} required"
    )
    missed_counts = counts.filter(is_missed)
    names = pc.if_else(pc.equal(missed_counts, 1), f" {unit}", f" {units}")
    evidence = evidence_where(is_missed, join_texts(missed_counts.cast(pa.string()), names, limits))
    return CheckVerdicts(pc.invert(is_missed), evidence)

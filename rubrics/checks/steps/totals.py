"""Checks of the totals of a trajectory: its steps, errors, tokens, cost and time."""

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures
from gradebook.rubrics.checks.steps.laid_out import lay_out
from gradebook.rubrics.model.steps import StepKind

PRICED: dict[str, Any] = {
    "steps": [
        {"kind": "model", "output": "Let me look.", "tokens": 200, "cost_usd": 0.01, "latency_ms": 900.0},
        {"kind": "tool", "name": "search", "error": "timed out", "latency_ms": 5000.0},
        {"kind": "model", "output": "Sorry.", "tokens": 300, "cost_usd": 0.02, "latency_ms": 700.0},
    ]
}
_MEASURES = {"tokens": "tokens", "cost_usd": "cost in dollars", "latency_ms": "milliseconds in steps"}


class CountStepsSettings(BoundsSettings):
    """Steps to count, and their bounds."""

    kinds: tuple[StepKind, ...] = ()
    """kinds of steps that count; all by default"""
    only_errors: bool = False
    """whether only steps with an error count"""


@register_check(
    "count_steps",
    CountStepsSettings,
    columns=("steps",),
    examples=(
        Example("Sorry.", True, {"max": 3}, PRICED),
        Example("Sorry.", False, {"max": 0, "only_errors": True}, PRICED),
        Example("Sorry.", True, {"min": 1, "max": 1, "kinds": ["tool"]}, PRICED),
        Example("Sorry.", None, {"max": 3}),
    ),
)
def count_steps(shard: pa.Table, settings: CountStepsSettings) -> CheckVerdicts:
    """The number of steps, or of those of some kinds or with an error, is within the bounds.

    An output that came without steps stays unscored.
    """
    laid_out = lay_out(shard)
    is_counted = laid_out.is_kind(*settings.kinds) if settings.kinds else np.ones(len(laid_out.owners), np.bool_)
    if settings.only_errors:
        is_counted &= laid_out.has_error
    counts = pa.array(laid_out.count(is_counted), pa.int64())
    return laid_out.unscored_without_steps(judge_counts(counts, settings, "step", "steps"))


class StepTotalSettings(MeasureSettings):
    """Measure that is summed over the steps, and the bounds of its sum."""

    measure: Literal["tokens", "cost_usd", "latency_ms"]
    """the field of the steps to add up"""


@register_check(
    "step_total",
    StepTotalSettings,
    columns=("steps",),
    examples=(
        Example("Sorry.", True, {"measure": "tokens", "max": 500}, PRICED),
        Example("Sorry.", False, {"measure": "cost_usd", "max": 0.02}, PRICED),
        Example("Sorry.", False, {"measure": "latency_ms", "max": 2000}, PRICED),
        Example("Sorry.", None, {"measure": "tokens", "max": 500}),
    ),
)
def step_total(shard: pa.Table, settings: StepTotalSettings) -> CheckVerdicts:
    """The tokens, the cost or the time of all steps together is within the bounds.

    Steps that do not say it are left out of the sum, and steps that ran at once each count. An output none of whose
    steps says it stays unscored.
    """
    laid_out = lay_out(shard)
    totals = laid_out.total(settings.measure)
    reasons = pc.if_else(totals.is_null(), f"no step states its {settings.measure}", pa.scalar(None, pa.string()))
    return laid_out.unscored_without_steps(judge_measures(totals, settings, _MEASURES[settings.measure], reasons))

"""Verdicts of criteria from the outcomes of their checks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA, verdict_rows

NO_REASON = "the check can't tell"


@dataclass(frozen=True, slots=True)
class CheckedCriterion:
    """Criterion with the outcome of its check. output_ids: (output,)."""

    criterion: Criterion
    output_ids: pa.Array
    found: CheckVerdicts


def grade_outputs(run_id: str, criterion: Criterion, output_ids: pa.Array, found: CheckVerdicts) -> pa.Table:
    """Build the verdicts of one criterion, as `grade_checked` does."""
    return grade_checked(run_id, [CheckedCriterion(criterion, output_ids, found)])


def grade_checked(run_id: str, checked: Sequence[CheckedCriterion]) -> pa.Table:
    """Build the verdicts of many checked criteria at once, as per-case criteria may number thousands.

    The level is the one that the check named, else the highest level for a pass and the lowest for a fail. A row with
    neither is unscored. Returns a table of `VERDICT_SCHEMA`, one row per criterion and output.
    """
    if not checked:
        return VERDICT_SCHEMA.empty_table()
    owners = pa.array(np.repeat(np.arange(len(checked)), [len(each.output_ids) for each in checked]))
    level_ids, scores = _levels(checked, owners)
    reasons = pc.fill_null(_column(checked, "reasons", pa.string()), NO_REASON)
    return verdict_rows(
        run_id,
        pa.array([each.criterion.id for each in checked]).take(owners),
        pa.array([each.criterion.method.type for each in checked]).take(owners),
        _joined([each.output_ids for each in checked], pa.string()),
        level_ids,
        scores,
        reasons=pc.if_else(level_ids.is_null(), reasons, pa.scalar(None, pa.string())),
        evidence=_column(checked, "evidence", pa.string()),
    )


def _levels(checked: Sequence[CheckedCriterion], owners: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Level and score of each row: (row,). owners: (row,), index of the row in `checked`."""
    ranked = [each.criterion.ranked_levels for each in checked]
    is_passed = _column(checked, "is_passed", pa.bool_())
    best, worst = (_ids_and_scores([levels[place] for levels in ranked]) for place in (-1, 0))
    level_ids, scores = (
        pc.if_else(is_passed, high.take(owners), low.take(owners)) for high, low in zip(best, worst, strict=True)
    )
    if all(each.found.level_ids is None for each in checked):
        return level_ids, scores
    level_ids = pc.coalesce(_column(checked, "level_ids", pa.string()), level_ids)
    known = {f"{owner} {level.id}": level.score for owner, levels in enumerate(ranked) for level in levels}
    keys = pc.binary_join_element_wise(owners.cast(pa.string()), level_ids, " ")
    places = pc.index_in(keys, pa.array(list(known), pa.string()))
    return level_ids, pa.array(list(known.values()), pa.float64()).take(places)


def _ids_and_scores(levels: list[Level]) -> tuple[pa.Array, pa.Array]:
    return pa.array([level.id for level in levels]), pa.array([level.score for level in levels], pa.float64())


def _column(checked: Sequence[CheckedCriterion], name: str, kind: pa.DataType) -> pa.Array:
    """One array of all checked criteria: (row,), null for those without it."""
    arrays = [(each, getattr(each.found, name)) for each in checked]
    return _joined([pa.nulls(len(each.output_ids), kind) if array is None else array for each, array in arrays], kind)


def _joined(arrays: list[pa.Array], kind: pa.DataType) -> pa.Array:
    alike = [array if array.type == kind else array.cast(kind) for array in arrays]
    return pa.concat_arrays(alike) if len(alike) > 1 else alike[0]  # usually one array, and a large one

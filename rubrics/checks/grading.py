"""Verdicts of criteria from the findings of their checks."""

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
class Finding:
    """Result of a criterion's check. output_ids: (output,)."""

    criterion: Criterion
    output_ids: pa.Array
    found: CheckVerdicts


def grade_outputs(run_id: str, criterion: Criterion, output_ids: pa.Array, found: CheckVerdicts) -> pa.Table:
    """Build the verdicts of one criterion, as `grade_findings` does."""
    return grade_findings(run_id, [Finding(criterion, output_ids, found)])


def grade_findings(run_id: str, findings: Sequence[Finding]) -> pa.Table:
    """Build the verdicts of many findings at once, as per-case criteria may number thousands.

    The level is the one that the check named, else the highest level for a pass and the lowest for a fail. A row with
    neither is unscored. Returns a table of `VERDICT_SCHEMA`, one row per finding and output.
    """
    if not findings:
        return VERDICT_SCHEMA.empty_table()
    owners = pa.array(np.repeat(np.arange(len(findings)), [len(finding.output_ids) for finding in findings]))
    level_ids, scores = _levels(findings, owners)
    reasons = pc.fill_null(_column(findings, "reasons", pa.string()), NO_REASON)
    return verdict_rows(
        run_id,
        pa.array([finding.criterion.id for finding in findings]).take(owners),
        pa.array([finding.criterion.method.type for finding in findings]).take(owners),
        _joined([finding.output_ids for finding in findings], pa.string()),
        level_ids,
        scores,
        reasons=pc.if_else(level_ids.is_null(), reasons, pa.scalar(None, pa.string())),
        evidence=_column(findings, "evidence", pa.string()),
    )


def _levels(findings: Sequence[Finding], owners: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Level and score of each row: (row,). owners: (row,), index of the row's finding."""
    ranked = [finding.criterion.ranked_levels for finding in findings]
    is_passed = _column(findings, "is_passed", pa.bool_())
    best, worst = (_ids_and_scores([levels[place] for levels in ranked]) for place in (-1, 0))
    level_ids, scores = (
        pc.if_else(is_passed, high.take(owners), low.take(owners)) for high, low in zip(best, worst, strict=True)
    )
    if all(finding.found.level_ids is None for finding in findings):
        return level_ids, scores
    level_ids = pc.coalesce(_column(findings, "level_ids", pa.string()), level_ids)
    known = {f"{owner} {level.id}": level.score for owner, levels in enumerate(ranked) for level in levels}
    keys = pc.binary_join_element_wise(owners.cast(pa.string()), level_ids, " ")
    places = pc.index_in(keys, pa.array(list(known), pa.string()))
    return level_ids, pa.array(list(known.values()), pa.float64()).take(places)


def _ids_and_scores(levels: list[Level]) -> tuple[pa.Array, pa.Array]:
    return pa.array([level.id for level in levels]), pa.array([level.score for level in levels], pa.float64())


def _column(findings: Sequence[Finding], name: str, kind: pa.DataType) -> pa.Array:
    """One array of all findings: (row,), null for findings without it."""
    arrays = [(finding, getattr(finding.found, name)) for finding in findings]
    return _joined(
        [pa.nulls(len(finding.output_ids), kind) if array is None else array for finding, array in arrays], kind
    )


def _joined(arrays: list[pa.Array], kind: pa.DataType) -> pa.Array:
    alike = [array if array.type == kind else array.cast(kind) for array in arrays]
    return pa.concat_arrays(alike) if len(alike) > 1 else alike[0]  # usually one array, and a large one

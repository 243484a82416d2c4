"""From what a check found to a criterion's verdicts."""

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.registry import CheckVerdicts
from rubrics.model import Criterion
from rubrics.verdicts import verdict_table

NO_REASON = "the check can't tell"


def grade_outputs(run_id: str, criterion: Criterion, output_ids: pa.Array, found: CheckVerdicts) -> pa.Table:
    """Build the criterion's verdicts: the level that the check named, else the highest for a pass and the lowest for a
    fail; unscored for neither.

    output_ids: (output,). Returns a table of `VERDICT_SCHEMA`, a row an output.
    """
    levels = criterion.ranked_levels
    level_ids = pc.if_else(found.is_passed, levels[-1].id, levels[0].id)
    if found.level_ids is not None:
        level_ids = pc.coalesce(found.level_ids, level_ids)
    places = pc.index_in(level_ids, pa.array([level.id for level in levels]))
    reasons = pa.nulls(len(output_ids), pa.string()) if found.reasons is None else found.reasons
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        level_ids,
        pa.array([level.score for level in levels], pa.float64()).take(places),
        reasons=pc.if_else(level_ids.is_null(), pc.fill_null(reasons, NO_REASON), pa.scalar(None, pa.string())),
        evidence=found.evidence,
    )

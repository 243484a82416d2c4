"""From what a check found to a criterion's verdicts."""

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.registry import CheckVerdicts
from rubrics.model import Criterion
from rubrics.verdicts import verdict_table

NO_REASON = "the check can't tell"


def grade_outputs(run_id: str, criterion: Criterion, output_ids: pa.Array, found: CheckVerdicts) -> pa.Table:
    """Build the criterion's verdicts: the highest level for a pass, the lowest for a fail, unscored for neither.

    output_ids: (output,). Returns a table of `VERDICT_SCHEMA`, a row an output.
    """
    lowest, highest = criterion.ranked_levels[0], criterion.ranked_levels[-1]
    reasons = pa.nulls(len(output_ids), pa.string()) if found.reasons is None else found.reasons
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        pc.if_else(found.is_passed, highest.id, lowest.id),
        pc.if_else(found.is_passed, highest.score, lowest.score),
        reasons=pc.if_else(found.is_passed.is_null(), pc.fill_null(reasons, NO_REASON), pa.scalar(None, pa.string())),
        evidence=found.evidence,
    )

"""Criteria whose method nothing scores yet: they may stand in a rubric, and say so."""

import pyarrow as pa

from gradebook.rubrics.checks.columns import text_column
from gradebook.rubrics.model import Criterion
from gradebook.rubrics.verdicts import verdict_table


def leave_unscored(run_id: str, criterion: Criterion, shard: pa.Table) -> pa.Table:
    """The verdicts of a criterion that can't be scored: all unscored, and why. Returns `VERDICT_SCHEMA`."""
    count = shard.num_rows
    return verdict_table(
        run_id,
        criterion,
        text_column(shard, "output_id"),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.float64()),
        reasons=pa.repeat(f"unsupported_method: {criterion.method.type}", count),
    )

"""Scoring a criterion whose method is a check."""

import pyarrow as pa

from rubrics.checks import find_check, read_settings
from rubrics.checks.columns import text_column
from rubrics.checks.grading import grade_outputs
from rubrics.checks.modes import run_check
from rubrics.methods import CheckMethod
from rubrics.model import Criterion


def score_check(run_id: str, criterion: Criterion, shard: pa.Table) -> pa.Table:
    """Score a shard by the criterion's check: a table of `VERDICT_SCHEMA`, a row an output.

    Raises `TypeError` for a criterion of another method, `KeyError` for an unknown check, and pydantic's
    `ValidationError` for its settings; lint refuses a rubric with any of the three.
    """
    method = criterion.method
    if not isinstance(method, CheckMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected check")
    check = find_check(method.check)
    found = run_check(check, shard, read_settings(check, method.settings), method.mode)
    return grade_outputs(run_id, criterion, text_column(shard, "output_id"), found)

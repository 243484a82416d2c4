"""Scoring a criterion whose method is a JSON Schema."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gradebook.rubrics.checks.columns import text_column
from gradebook.rubrics.checks.grading import grade_outputs
from gradebook.rubrics.methods import SchemaMethod
from gradebook.rubrics.model import Criterion
from gradebook.rubrics.schemas.validating import NO_SCHEMAS, validate_outputs


def score_schema(
    run_id: str, criterion: Criterion, shard: pa.Table, schemas: Mapping[str, dict[str, Any]] = NO_SCHEMAS
) -> pa.Table:
    """Score a shard by the criterion's JSON Schema: a table of `VERDICT_SCHEMA`, a row an output.

    schemas: the rubric's, by name, to which that schema may refer; a row's own criterion has none. Raises `TypeError`
    for a criterion of another method, and `ValueError` for a schema that `check_schema` refuses.
    """
    method = criterion.method
    if not isinstance(method, SchemaMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected schema")
    found = validate_outputs(text_column(shard, "output"), method.json_schema, schemas)
    return grade_outputs(run_id, criterion, text_column(shard, "output_id"), found)

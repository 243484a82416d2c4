"""Conditions of criteria over a shard: outputs that a criterion applies to, and reasons of the others."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.columns import cut_text, text_column, to_mask
from gradebook.rubrics.checks.grading import run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.conditions import (
    METADATA,
    UNMET,
    CheckCondition,
    Condition,
    Misfit,
    describe_values,
    parse_condition,
)
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Criterion


@dataclass(frozen=True, slots=True)
class Applied:
    """Outputs of a shard that a criterion applies to. mask: (output,). reasons: (output,), null where it applies."""

    mask: NDArray[np.bool_]
    reasons: pa.StringArray


def condition_columns(criterion: Criterion) -> tuple[str, ...]:
    """Columns of a shard that the condition of a criterion reads; none without a condition."""
    condition = criterion.applies
    if condition is None:
        return ()
    if isinstance(condition, CheckCondition):
        return tuple(dict.fromkeys((condition.field, *find_check(condition.check).columns)))
    return tuple(dict.fromkeys(field.path[0] for field in parse_condition(condition).fields()))


def apply_condition(criterion: Criterion, rows: pa.Table) -> Applied:
    """Outputs that a criterion with a condition applies to. rows: case_id and `condition_columns`.

    Raises `InputError` for a row whose value has another type than the condition compares it with.
    """
    if isinstance(criterion.applies, CheckCondition):
        return _apply_check(criterion.applies, rows)
    condition = parse_condition(str(criterion.applies))
    names = list(condition_columns(criterion))
    memo: dict[Any, str | None] = {}  # most rows have one of few values
    reasons: list[str | None] = []
    for index, values in enumerate(zip(*(_plain_values(rows, name) for name in names), strict=True)):
        try:
            if values not in memo:
                memo[values] = _reason(condition, dict(zip(names, values, strict=True)))
        except Misfit as misfit:
            place = f"{criterion.id}: applies: case {rows.column('case_id')[index].as_py()}: {misfit.field}"
            raise InputError(place, misfit.found, misfit.expected) from None
        reasons.append(memo[values])
    column = pa.array(reasons, pa.string())
    return Applied(to_mask(column.is_null()), column)


def _plain_values(rows: pa.Table, name: str) -> list[Any]:
    column = rows.column(name)
    if name == "context":  # only its presence counts
        return [True if size else None for size in pc.list_value_length(column).to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _reason(condition: Condition, values: dict[str, Any]) -> str | None:
    """Reason why the condition does not hold; None if it holds. values: metadata as JSON text. Raises `Misfit`."""
    row = values | ({METADATA: orjson.loads(values[METADATA] or b"{}")} if METADATA in values else {})
    return None if condition.holds(row) else cut_text(f"{UNMET}{describe_values(condition, row)}")


def _apply_check(condition: CheckCondition, rows: pa.Table) -> Applied:
    texts = pc.fill_null(text_column(rows, condition.field), "")
    if "output" in rows.column_names:
        rows = rows.drop_columns(["output"])
    check = find_check(condition.check)
    verdicts = run_check(check, rows.append_column("output", texts), read_settings(check, condition.settings, None))
    is_applied = pc.fill_null(verdicts.is_passed, False)
    mask = to_mask(is_applied.combine_chunks() if isinstance(is_applied, pa.ChunkedArray) else is_applied)
    return Applied(mask, pa.array([f"{UNMET}{condition.refusal}"] * len(mask), mask=mask))


def absent_fields(criterion: Criterion, metadata: Iterable[str | None]) -> list[str]:
    """Fields of a criterion's condition that are in no row's metadata. metadata: JSON texts, without duplicates."""
    if not isinstance(criterion.applies, str):
        return []
    fields = [field for field in parse_condition(criterion.applies).fields() if field.path[0] == METADATA]
    rows = [{METADATA: orjson.loads(text)} for text in metadata if text] if fields else []
    return [str(field) for field in dict.fromkeys(fields) if all(field.read(row) is None for row in rows)]

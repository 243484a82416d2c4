"""Matching of imported rating sheets to outputs of the lake."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from gradebook.rubrics.importers.ratings.shapes import Slot
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.sql import query

SLOT_SCHEMA = pa.schema(
    [
        pa.field("sheet", pa.int64(), nullable=False),
        pa.field("output_id", pa.string()),
        pa.field("case_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("sample_index", pa.int32()),
        pa.field("name", pa.string()),
    ]
)
_SLOT_COLUMNS = SLOT_SCHEMA.names[1:]


@dataclass(frozen=True, slots=True)
class Matches:
    """Match of each sheet. output_ids: (sheet,), None where fit_counts is 0; fit_counts: (sheet,), matching outputs.

    own_criteria: per-case criteria by output, as JSON text.
    """

    output_ids: list[str | None]
    fit_counts: list[int]
    own_criteria: dict[str, str]


def match_slots(connection: duckdb.DuckDBPyConnection, slots: Sequence[Slot], run_id: str | None) -> Matches:
    """Find the output of each slot in the lake or in one run. Raises `InputError` for an unknown run."""
    if run_id is not None:
        _refuse_unknown_run(connection, run_id)
    columns = {name: [getattr(slot, name) for slot in slots] for name in _SLOT_COLUMNS}
    connection.register("sheets", pa.table({"sheet": range(len(slots)), **columns}, schema=SLOT_SCHEMA))
    found = connection.execute(query("ratings/matched_sheets"), {"run_id": run_id}).to_arrow_table()
    output_ids = found.column("output_id")
    connection.register("matched_outputs", pa.table({"output_id": output_ids.unique().drop_null()}))
    own = connection.execute(
        "select output_id, criteria from outputs "
        "where criteria is not null and output_id in (select output_id from matched_outputs)"
    ).fetchall()
    for name in ("sheets", "matched_outputs"):
        connection.unregister(name)
    return Matches(output_ids.to_pylist(), found.column("fit_count").to_pylist(), dict(own))


def slot_fault(slot: Slot, fit_count: int) -> str | None:
    """Fault of a slot that matches no output, or several; None if it matches one."""
    if fit_count == 1:
        return None
    named = [(name, getattr(slot, name)) for name in (*_SLOT_COLUMNS[:-1], "name") if getattr(slot, name) is not None]
    words = ", ".join(f"{'trace_id' if name == 'name' else name} {value}" for name, value in named)
    if not fit_count:
        return f"{words}: found no such output in the lake, expected one that a run published"
    expected = "expected one: name model, checkpoint and sample_index or output_id, or give --run"
    return f"{words}: found {fit_count} outputs, {expected}"


def _refuse_unknown_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    row = connection.execute("select status from runs where run_id = ?", [run_id]).fetchone()
    if row is None or row[0] != "published":
        found = "no such run" if row is None else f"a run that is {row[0]}"
        raise InputError(f"--run {run_id}", found, "one that `gradebook runs` lists as published")

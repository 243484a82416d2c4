"""Outputs and rubrics of a Python caller (paths, tables, dicts, objects) as files for the stages."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.flows.api.wording import in_parameters
from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.model.errors import Fault, InputError, OutputsError
from gradebook.tasks.rubric_store import versions
from gradebook.tasks.rubric_store.files import rubric_text
from gradebook.tasks.rubric_store.versions import GivenRubric

INTEGERS = (
    "case_id",
    "checkpoint",
    "sample_index",
    "cluster",
)  # whole numbers, which pandas turns into floats if values are missing
load_rubric = in_parameters(versions.load_rubric)
EXPECTED = "a path, a list of dicts, or a table of pandas, Polars or Arrow"


@in_parameters
def lint(rubric: GivenRubric) -> tuple[LintFinding, ...]:
    """Every finding of lint about a rubric, as `gradebook rubric lint` without a lake.

    >>> [finding.rule for finding in lint("json_record") if finding.severity == "error"]
    []

    Raises `RubricError` for a missing file; faults of a rubric are findings.
    """
    if isinstance(rubric, str | Path):
        text, source, folder = rubric_text(str(rubric))
        return lint_text(text, source, folder=folder)
    loaded = load_rubric(rubric)
    return lint_text(rubric_yaml(loaded), loaded.id)


def rubric_name(rubric: GivenRubric, folder: Path) -> str:
    """Name of a rubric for a request: a path or a name unchanged; an object is written below the folder."""
    if isinstance(rubric, str | Path):
        return str(rubric)
    loaded = load_rubric(rubric)
    path = folder / f"{loaded.id}.yaml"
    path.write_text(rubric_yaml(loaded), encoding="utf-8")
    return str(path)


def outputs_path(outputs: Any, folder: Path) -> str:
    """Path of outputs for a request: a path unchanged; rows and tables are written below the folder.

    Raises `InputError` for anything else, and for empty rows.
    """
    if isinstance(outputs, str | Path):
        return str(outputs)
    if isinstance(outputs, Mapping):
        raise InputError("outputs", "one row", EXPECTED, "put it into a list")
    if hasattr(outputs, "collect") and hasattr(outputs, "collect_schema"):
        raise InputError("outputs", "a lazy frame", EXPECTED, "call its `collect`")
    if (table := _table(outputs)) is not None:
        try:
            return _write_table(table, folder)
        except pa.ArrowException:  # a type that Parquet or Arrow's casts do not know
            return _write_rows(table.to_pylist(), folder)
    if hasattr(outputs, "to_dict") and hasattr(outputs, "columns"):  # a frame of pandas that is no Arrow table
        return _write_rows([_unfloated(row) for row in outputs.to_dict("records")], folder)
    if isinstance(outputs, Iterable) and not isinstance(outputs, bytes):
        return _write_rows(list(outputs), folder)
    raise InputError("outputs", f"a {type(outputs).__name__}", EXPECTED)


def _table(outputs: Any) -> pa.Table | None:
    """Arrow table of a data frame; None for anything else, and for columns with mixed types."""
    if isinstance(outputs, pa.Table):
        return outputs
    names = list(getattr(outputs, "columns", ()))
    if len(set(map(str, names))) < len(names):
        twice = next(name for name in map(str, names) if list(map(str, names)).count(name) > 1)
        raise InputError("outputs", f"the column {twice!r} twice", "each column once")
    try:
        if type(outputs).__module__.partition(".")[0] == "pandas" and names:
            return pa.Table.from_pandas(outputs, preserve_index=False)
        return pa.table(outputs) if hasattr(outputs, "__arrow_c_stream__") else None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def _write_table(table: pa.Table, folder: Path) -> str:
    if not table.num_rows:
        raise InputError("outputs", "no rows", "one or more")
    for index, name in enumerate(table.column_names):
        column = table.column(index)
        kind = column.type
        if name in INTEGERS and pa.types.is_floating(kind):
            column = pc.if_else(pc.is_nan(column), None, column)
            is_whole = pc.all(pc.equal(column, pc.floor(column))).as_py()
            table = table.set_column(index, name, column.cast(pa.int64()) if is_whole else column)
        elif pa.types.is_null(kind):
            table = table.set_column(index, name, column.cast(pa.string()))
        elif pa.types.is_string_view(kind) or pa.types.is_dictionary(kind):
            table = table.set_column(index, name, column.cast(pa.large_string()))
    path = folder / "outputs.parquet"
    pq.write_table(table, path)
    return str(path)


def _write_rows(rows: Sequence[Any], folder: Path) -> str:
    """Write rows as JSON Lines; NaN counts as a missing value, as in data frames."""
    faults = tuple(
        Fault("outputs", number, f"found a {type(row).__name__}, expected a dict")
        for number, row in enumerate(rows, 1)
        if not isinstance(row, Mapping)
    )
    if faults:
        raise OutputsError(faults)
    if not rows:
        raise InputError("outputs", "no rows", "one or more")
    path = folder / "outputs.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows, 1):
            try:
                plain = {str(name): None if _is_nan(value) else value for name, value in row.items()}
                file.write(json.dumps(plain, default=_plain) + "\n")
            except (TypeError, ValueError, RecursionError) as error:
                raise OutputsError((Fault("outputs", number, f"found {error}, expected values of JSON"),)) from None
    return str(path)


def _unfloated(row: dict[Any, Any]) -> dict[Any, Any]:
    """Row of a data frame with the floats in `INTEGERS` columns as whole numbers."""
    return {
        name: int(value) if name in INTEGERS and isinstance(value, float) and value.is_integer() else value
        for name, value in row.items()
    }


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _plain(value: Any) -> Any:
    """Python value of a numpy or Arrow value."""
    for name in ("tolist", "as_py", "isoformat"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"a value of type {type(value).__name__}")

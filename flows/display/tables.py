"""Rows of a query or an export, written to stdout or a file: as a table, CSV, JSON Lines or Parquet."""

import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.flows.display.terminal import Stdout, plain, show_rows, stderr
from gradebook.rubrics.model.errors import InputError, QueryError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.query_rows import Writable, refuse_repeated_names, write_csv
from gradebook.tasks.system.files import replaced_file, write_parquet

MOST_ROWS_SHOWN = 500


def write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    """Write a table as `table`, `csv`, `json` or `parquet`.

    Raises `InputError` if the file can't be written, `QueryError` if the format can't represent the rows.
    """
    if out is not None and not out.name:
        raise InputError("--out", f"{str(out)!r}", "a file name")
    if form in ("json", "parquet"):
        refuse_repeated_names(rows)
    try:
        _write_rows(rows, form, out)
    except (OverflowError, pa.ArrowException) as error:
        unfit = f"a value that --format {form} can't represent ({error})"
        raise QueryError("sql", unfit, "a cast, as in `value::varchar`") from error
    except OSError as error:
        if out is None:
            raise
        raise InputError("--out", f"can't write {out}: {error.strerror or error}") from error


def _write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    if out is None:
        if form == "table":
            _show_table(rows)
        else:
            _WRITERS[form](rows, Stdout())
        return
    if form == "parquet":
        write_parquet(out, rows)
        return
    with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _WRITERS["csv" if form == "table" else form](rows, file)


def _show_table(rows: pa.Table) -> None:
    first_rows = rows.slice(0, MOST_ROWS_SHOWN)
    show_rows(rows.column_names, zip(*(column.to_pylist() for column in first_rows.columns), strict=True), null="null")
    if rows.num_rows > MOST_ROWS_SHOWN:
        stderr.print(f"the first {MOST_ROWS_SHOWN} of {rows.num_rows:,} rows; --format csv writes all")


def _write_json(rows: pa.Table, file: Writable) -> None:
    import orjson

    text = io.StringIO()
    for index, row in enumerate(rows.to_pylist()):
        text.write("[\n " if index == 0 else ",\n ")
        text.write(orjson.dumps(row, default=_plain_value).decode())
    file.write(text.getvalue() + "\n]\n" if rows.num_rows else "[]\n")


def _plain_value(value: object) -> object:
    """JSON value for a type that orjson can't write; DuckDB's sums of integers are decimals."""
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            return float(value)
        return int(value) if -(2**63) <= value < 2**64 else str(value)  # larger numbers would lose digits
    return str(value)


_WRITERS: dict[str, Callable[[pa.Table, Writable], None]] = {"csv": write_csv, "json": _write_json}


BY_CRITERION = ("rewards", "weights")  # columns whose keys differ by row: maps in Parquet


def write_row_file(rows: list[dict[str, Any]], out: Path | None) -> None:
    """Write rows to a file by its ending, completely or not at all; None: JSON Lines on stdout. Raises `InputError`."""
    if out is None:
        stdout = Stdout()
        for row in rows:
            stdout.write(_line(row))
        return
    refuse_other_form(out)
    try:
        if out.suffix == ".parquet":
            write_parquet(out, _table(rows))
        else:
            _write_lines(rows, out)
    except OSError as error:
        raise InputError("--out", f"can't write {out}: {error.strerror or error}") from error
    stderr.print(f"wrote {counted(len(rows), 'row')} to {plain(out)}", markup=False, soft_wrap=True)


def refuse_other_form(out: Path | None) -> None:
    """Raise `InputError` for a file of another form than those of `write_row_file`."""
    if out is not None and out.suffix not in (".jsonl", ".parquet"):
        raise InputError("--out", repr(str(out)), "a file that ends in .jsonl or .parquet")


def _write_lines(rows: list[dict[str, Any]], out: Path) -> None:
    with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(map(_line, rows))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str, allow_nan=False) + "\n"


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table; a column of texts and lists becomes texts, with the lists as JSON."""
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    return pa.table({name: _column(name, values) for name, values in columns.items()})


def _column(name: str, values: list[Any]) -> pa.Array:
    if name in BY_CRITERION:
        return pa.array([list(value.items()) for value in values], pa.map_(pa.string(), pa.float64()))
    has_lists = any(isinstance(value, list) for value in values)
    if has_lists and any(isinstance(value, str) for value in values):
        return pa.array([json.dumps(value) if isinstance(value, list) else value for value in values], pa.string())
    array = pa.array(values)
    return array.cast(pa.string()) if pa.types.is_null(array.type) and name != "reward" else array

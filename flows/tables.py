"""Rows of a query on stdout or in a file."""

import csv
import io
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import IO

import pyarrow as pa

from rubrics.errors import InputError

MOST_ROWS_SHOWN = 500


def write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    """Write a table as `table`, `csv`, `json` or `parquet`. Raises `InputError` where the file can't be written."""
    if out is None:
        if form == "table":
            _show_table(rows)
        else:
            _WRITERS[form](rows, sys.stdout)
        return
    from tasks.files import replaced_file, write_parquet

    try:
        if form == "parquet":
            write_parquet(out, rows)
            return
        with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            _WRITERS["csv" if form == "table" else form](rows, file)
    except OSError as error:
        raise InputError(f"--out: can't write {out}: {error.strerror}") from error


def _show_table(rows: pa.Table) -> None:
    from flows.display import people, show_rows

    shown = rows.slice(0, MOST_ROWS_SHOWN)
    show_rows(rows.column_names, zip(*(column.to_pylist() for column in shown.columns), strict=True))
    if rows.num_rows > MOST_ROWS_SHOWN:
        people.print(f"the first {MOST_ROWS_SHOWN} of {rows.num_rows:,} rows; --format csv writes all")


def _write_csv(rows: pa.Table, file: IO[str]) -> None:
    writer = csv.writer(file)
    writer.writerow(rows.column_names)
    for batch in rows.to_batches():
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _write_json(rows: pa.Table, file: IO[str]) -> None:
    import orjson

    text = io.StringIO()
    for index, row in enumerate(rows.to_pylist()):
        text.write("[\n " if index == 0 else ",\n ")
        text.write(orjson.dumps(row, default=_plain_value).decode())
    file.write(text.getvalue() + "\n]\n" if rows.num_rows else "[]\n")


def _plain_value(value: object) -> object:
    """What JSON has no word for; DuckDB's sums of integers come as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


_WRITERS: dict[str, Callable[[pa.Table, IO[str]], None]] = {"csv": _write_csv, "json": _write_json}

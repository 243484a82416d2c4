"""Rows of a query on stdout or in a file."""

import csv
import io
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import IO

import pyarrow as pa

from gradebook.rubrics.model.errors import InputError, QueryError

MOST_ROWS_SHOWN = 500


def write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    """Write a table as `table`, `csv`, `json` or `parquet`.

    Raises `InputError` where the file can't be written, `QueryError` where the form has no words for the rows.
    """
    if out is not None and not out.name:
        raise InputError(f"--out: found {str(out)!r}, expected the name of a file")
    if form in ("json", "parquet"):
        _refuse_repeated_names(rows)
    try:
        _write_rows(rows, form, out)
    except (OverflowError, pa.ArrowException) as error:
        message = f"found a value that --format {form} can't hold ({error}), expected a cast, as in `value::varchar`"
        raise QueryError(f"sql: {message}") from error
    except OSError as error:
        if out is None:
            raise
        raise InputError(f"--out: can't write {out}: {error.strerror or error}") from error


def _write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    if out is None:
        if form == "table":
            _show_table(rows)
        else:
            _WRITERS[form](rows, sys.stdout)
        return
    from gradebook.tasks.system.files import replaced_file, write_parquet

    if form == "parquet":
        write_parquet(out, rows)
        return
    with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _WRITERS["csv" if form == "table" else form](rows, file)


def _refuse_repeated_names(rows: pa.Table) -> None:
    """An object of JSON would silently hold the last of two columns, and few readers take such Parquet."""
    twice = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if twice:
        raise QueryError(
            f"sql: found {', '.join(twice)} more than once, expected each column once: rename it with `as`"
        )


def _show_table(rows: pa.Table) -> None:
    from gradebook.flows.display.terminal import people, show_rows

    shown = rows.slice(0, MOST_ROWS_SHOWN)
    show_rows(rows.column_names, zip(*(column.to_pylist() for column in shown.columns), strict=True))
    if rows.num_rows > MOST_ROWS_SHOWN:
        people.print(f"the first {MOST_ROWS_SHOWN} of {rows.num_rows:,} rows; --format csv writes all")


def _write_csv(rows: pa.Table, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
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
        if value != value.to_integral_value():
            return float(value)
        return int(value) if -(2**63) <= value < 2**64 else str(value)  # beyond them a number would lose its digits
    return str(value)


_WRITERS: dict[str, Callable[[pa.Table, IO[str]], None]] = {"csv": _write_csv, "json": _write_json}

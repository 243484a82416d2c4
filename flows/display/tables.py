"""Rows of a query, written to stdout or a file."""

import csv
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from gradebook.rubrics.model.errors import InputError, QueryError

MOST_ROWS_SHOWN = 500


class Writable(Protocol):
    """Part of a file that the writers use."""

    def write(self, text: str, /) -> int: ...


def write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    """Write a table as `table`, `csv`, `json` or `parquet`.

    Raises `InputError` if the file can't be written, `QueryError` if the format can't represent the rows.
    """
    if out is not None and not out.name:
        raise InputError("--out", f"{str(out)!r}", "a file name")
    if form in ("json", "parquet"):
        _refuse_repeated_names(rows)
    try:
        _write_rows(rows, form, out)
    except (OverflowError, pa.ArrowException) as error:
        found = f"a value that --format {form} can't represent ({error})"
        raise QueryError("sql", found, "a cast, as in `value::varchar`") from error
    except OSError as error:
        if out is None:
            raise
        raise InputError("--out", f"can't write {out}: {error.strerror or error}") from error


def _write_rows(rows: pa.Table, form: str, out: Path | None) -> None:
    if out is None:
        if form == "table":
            _show_table(rows)
        else:
            from gradebook.flows.display.terminal import Stdout

            _WRITERS[form](rows, Stdout())
        return
    from gradebook.tasks.system.files import replaced_file, write_parquet

    if form == "parquet":
        write_parquet(out, rows)
        return
    with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _WRITERS["csv" if form == "table" else form](rows, file)


def _refuse_repeated_names(rows: pa.Table) -> None:
    """Raise `QueryError` for repeated columns: JSON keeps only the last one, and few readers accept such Parquet."""
    twice = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if twice:
        raise QueryError("sql", f"{', '.join(twice)} more than once", "each column once", "rename it with `as`")


def _show_table(rows: pa.Table) -> None:
    from gradebook.flows.display.terminal import notes, show_rows

    shown = rows.slice(0, MOST_ROWS_SHOWN)
    show_rows(rows.column_names, zip(*(column.to_pylist() for column in shown.columns), strict=True), null="null")
    if rows.num_rows > MOST_ROWS_SHOWN:
        notes.print(f"the first {MOST_ROWS_SHOWN} of {rows.num_rows:,} rows; --format csv writes all")


def _write_csv(rows: pa.Table, file: Writable) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.column_names)
    for batch in rows.to_batches():
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


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


_WRITERS: dict[str, Callable[[pa.Table, Writable], None]] = {"csv": _write_csv, "json": _write_json}

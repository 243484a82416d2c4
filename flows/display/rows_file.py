"""Rows for other programs, as JSON Lines, Parquet or CSV."""

import csv
import json
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from gradebook.flows.display.terminal import Stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.files import replaced_file, write_parquet

BY_CRITERION = ("rewards", "weights")  # columns whose keys differ by row: maps in Parquet


def write_row_file(
    rows: list[dict[str, Any]], out: Path | None, suffixes: tuple[str, ...] = (".jsonl", ".parquet")
) -> None:
    """Write rows to a file by its ending, completely or not at all; None: JSON Lines on stdout. Raises `InputError`."""
    if out is None:
        stdout = Stdout()
        for row in rows:
            stdout.write(_line(row))
        return
    if out.suffix not in suffixes:
        raise InputError("--out", repr(str(out)), f"a file that ends in {' or '.join(suffixes)}")
    try:
        if out.suffix == ".parquet":
            write_parquet(out, _table(rows))
            return
        with replaced_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            if out.suffix == ".csv":
                write_csv(rows, file)
            else:
                file.writelines(map(_line, rows))
    except OSError as error:
        raise InputError("--out", f"can't write {out}: {error.strerror or error}") from error


def write_csv(rows: list[dict[str, Any]], file: TextIO) -> None:
    """Write rows as CSV, with the columns of the first row; None is an empty field."""
    table = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)


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
    found = pa.array(values)
    return found.cast(pa.string()) if pa.types.is_null(found.type) and name != "reward" else found

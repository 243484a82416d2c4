"""Rows for other programs, as JSON Lines or Parquet."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.flows.display.terminal import Stdout, notes, plain
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.files import replaced_file, write_parquet

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
    notes.print(f"wrote {counted(len(rows), 'row')} to {plain(out)}", markup=False, soft_wrap=True)


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
    found = pa.array(values)
    return found.cast(pa.string()) if pa.types.is_null(found.type) and name != "reward" else found

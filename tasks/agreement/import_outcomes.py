"""Outcomes in use (clicks, refunds, reopened tickets) imported beside the runs, by output, case or day."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import duckdb

from gradebook.rubrics.importers.ratings.columns import name_text
from gradebook.rubrics.importers.ratings.shapes import Misfit
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, InputError, OutputsError
from gradebook.tasks.datasets.discovery import dataset_files, read_rows
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date, upgrade_lake
from gradebook.tasks.lake.rows import Row, insert_rows, make_table
from gradebook.tasks.lake.rows import read_rows as select_rows
from gradebook.tasks.lake.sql import query

GRAINS = {"output": "output_id", "case": "case_id", "day": "day"}
MOST_NAME = 100  # characters
_KEY = ("name", "grain", "output_id", "case_id", "day", "model")
_COUNTS = "select count(*) filter (not is_changed) as new_count, count(*) filter (is_changed) as changed_count "
_COUNTS += "from fresh_outcomes"
_FORGET = "delete from outcomes using fresh_outcomes as fresh where fresh.is_changed and "
_FORGET += " and ".join(f"fresh.{name} is not distinct from outcomes.{name}" for name in _KEY)
_INSERT = "insert into outcomes by name select * exclude (is_changed) from fresh_outcomes"


@dataclass(frozen=True, slots=True)
class OutcomeFile:
    """File of outcomes. name: of all rows without one. is_higher_better: whether a higher value is better."""

    files: str
    name: str | None = None
    is_higher_better: bool = True
    column_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutcomeImport:
    """Result of an import. changed_count: rows whose earlier value was replaced. unmatched_count: of no output."""

    row_count: int
    new_count: int
    changed_count: int
    unmatched_count: int
    names: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "row_count": self.row_count,
            "new_count": self.new_count,
            "changed_count": self.changed_count,
            "unmatched_count": self.unmatched_count,
            "names": list(self.names),
        }


def import_outcomes(lake: Lake, file: OutcomeFile, now: datetime, *, is_dry: bool = False) -> OutcomeImport:
    """Add the outcomes of a file in one transaction; an outcome that the lake has with the same value adds nothing.

    A row of the same name, output, case or day, and model replaces the earlier value. is_dry: write nothing. Raises
    `OutputsError` with all faults of the file; then nothing is written.
    """
    upgrade_lake(lake)
    rows = [row | {"imported_at": now} for row in read_outcomes(file)]
    counts: Row = {}

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        connection.execute("create or replace temp table given_outcomes as from outcomes limit 0")
        insert_rows(connection, "given_outcomes", rows)
        make_table(connection, "agreement/fresh_outcomes")
        counts.update(select_rows(connection, _COUNTS)[0])
        counts.update(select_rows(connection, query("agreement/unmatched_outcomes"))[0])
        if not is_dry and counts["new_count"] + counts["changed_count"]:
            connection.execute(_FORGET)
            connection.execute(_INSERT)

    if is_dry:
        with connect_up_to_date(lake) as connection:
            body(connection, 0)
    else:
        commit(lake, f"import outcomes of {file.files}", body)
    return OutcomeImport(len(rows), **counts, names=tuple(dict.fromkeys(str(row["name"]) for row in rows)))


def list_outcomes(lake: Lake) -> Sequence[Row]:
    """One row per name and grain of the lake's outcomes."""
    with connect_up_to_date(lake) as connection:
        return select_rows(connection, query("agreement/outcome_summary"))


def read_outcomes(file: OutcomeFile) -> list[Row]:
    """Rows of the table `outcomes`, without the time; equal rows once. Raises `OutputsError`."""
    found: dict[tuple[Any, ...], Row] = {}
    faults: list[Fault] = []
    columns = {name: file.column_map.get(name, name) for name in (*GRAINS.values(), "name", "value", "model")}
    for raw in read_rows(dataset_files(file.files), {}, (columns["value"],)):
        row = raw.content if isinstance(raw.content, str) else _read(raw.content, columns, file)
        if not isinstance(row, str):
            row |= {"source": raw.source, "line": raw.line, "is_higher_better": file.is_higher_better}
            earlier = found.setdefault(_key(row), row)
            if earlier["value"] == row["value"]:
                continue
            row = f"found the value {row['value']:g} after {earlier['value']:g} in line {earlier['line']}, expected one"
        faults.append(Fault(raw.source, raw.line, row))
        if len(faults) == MOST_FAULTS:
            break
    if faults:
        raise OutputsError(tuple(faults))
    if not found:
        raise InputError(file.files, "no outcome", "rows with a name, a value and an output_id, a case_id or a day")
    return [*found.values()]


def _read(content: Mapping[str, Any], columns: Mapping[str, str], file: OutcomeFile) -> Row | str:
    """Row of the table, or the reason why it is none."""
    given = {name: content.get(column) for name, column in columns.items()}
    given = {name: None if value == "" else value for name, value in given.items()}
    grains = [grain for grain, column in GRAINS.items() if given[column] is not None]
    # The grain is the narrowest one: an output is of a case, and a case may have a day.
    if not grains:
        return "found no output_id, case_id or day, expected one of them"
    grain = grains[0]
    name = given["name"] if given["name"] is not None else file.name
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MOST_NAME or "\0" in name:
        return f"found the name {name!r:.60}, expected a text of up to {MOST_NAME} characters, or --name"
    value = _number(given["value"])
    if value is None:
        return f"found the value {given['value']!r:.60}, expected a number"
    unit = given[GRAINS[grain]]
    day = _date(unit) if grain == "day" else None
    if grain == "day" and day is None:
        return f"found the day {unit!r:.60}, expected a date such as 2026-11-22"
    row: Row = {"name": name.strip(), "grain": grain, "output_id": None, "case_id": None, "day": day, "value": value}
    try:
        row["model"] = name_text("model", given["model"])
        return row if grain == "day" else row | {GRAINS[grain]: name_text(GRAINS[grain], unit)}
    except Misfit as misfit:
        return str(misfit)


def _number(value: Any) -> float | None:
    """Number of a cell; a truth value counts as 0 or 1."""
    words = {"true": 1.0, "false": 0.0}
    try:
        found = words[value.casefold()] if isinstance(value, str) and value.casefold() in words else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)

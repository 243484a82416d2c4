"""SQL checks of the tables of a run: what sql/columns.yml declares of a table, and the files of sql/checks.

A check is a select of the rows that break a rule. It belongs to a stage: outputs, verdicts and judgments are each one
relation of that name, marts are all relations of `build_marts`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import duckdb
import pyarrow as pa

from gradebook.tasks.lake.sql import DeclaredTable, declared_tables, file_list, open_database
from gradebook.tasks.marts.models import Model, has_rows, known_relations, mart_names, read_layer, relations_read

TableStage = Literal["outputs", "verdicts", "judgments"]  # stages that check the table of their name
Stage = Literal[TableStage, "marts"]
# A check is not run on a relation without the column that its header names: outputs of the lake are read without texts.
_ONLY_WITH = re.compile(r"^-- only with: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Check:
    """Select of the rows that break a rule.

    needed: relation; without rows in it, no row breaks the rule. column: of the stage's relation; without it, the check
    is not run.
    """

    name: str
    rule: str
    severity: str  # error | warning
    sql: str
    needed: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Finding of one check; the check is met if broken_count is 0."""

    name: str
    rule: str
    severity: str  # error | warning
    broken_count: int
    example: str | None  # one breaking row as text


def check_marts(connection: duckdb.DuckDBPyConnection) -> list[CheckFinding]:
    """Run the checks of the marts on the connection of `build_marts`; one finding per check, by name, met or not."""
    checks = checks_of("marts")
    needed = {check.needed for check in checks if check.needed is not None}
    empty = {relation for relation in needed if not has_rows(connection, relation)}
    return [_met_finding(check) if check.needed in empty else _run(connection, check) for check in checks]


def check_rows(stage: TableStage, rows: Path | pa.Table) -> list[CheckFinding]:
    """Run the checks of a stage on a Parquet file or a table; one finding per check, by name, met or not."""
    with open_database(threads=1) as connection:
        if isinstance(rows, Path):
            connection.execute(f"create view {stage} as from read_parquet({file_list([str(rows)])})")
        else:
            connection.register(stage, rows)
        columns = frozenset(connection.table(stage).columns)
        return [_run(connection, check) for check in checks_of(stage, columns)]


@cache
def checks_of(stage: Stage, columns: frozenset[str] | None = None) -> tuple[Check, ...]:
    """Checks of a stage, by name. columns: of the relation, if it may lack some. Raises `UnknownRelation`."""
    checks = [*map(_file_check, read_layer(f"checks/{stage}")), *_declared(stage, columns)]
    runnable = [check for check in checks if columns is None or check.column is None or check.column in columns]
    return tuple(sorted(runnable, key=lambda check: check.name))


def _file_check(file: Model) -> Check:
    """Check of a file: its rule and severity are the leading comment and the line `-- severity: error|warning`."""
    stage = file.layer.removeprefix("checks/")
    relations_read(file, known_relations() if stage == "marts" else frozenset({stage}))
    rule, _, below = file.sql.partition("\n-- severity: ")
    column = _ONLY_WITH.search(file.sql)
    return Check(
        file.name,
        rule.removeprefix("-- ").replace("\n-- ", " "),
        below.partition("\n")[0],
        file.sql,
        file.needed,
        column[1] if column else None,
    )


def _declared(stage: Stage, columns: frozenset[str] | None) -> Iterator[Check]:
    """Checks of the rules in sql/columns.yml about a stage's tables: grain, null rules and ranges."""
    for name, table in declared_tables().items():
        if stage == "marts" and name not in get_args(TableStage):
            is_mart = name in mart_names()
            relation, needed = (name, name) if is_mart else (f"stg_{name}", f"source_{name}")
            yield from _declared_of(name, table, relation, needed)
        elif stage == name:
            yield from _declared_of(name, _without_absent_columns(table, columns), name, None)


def _without_absent_columns(table: DeclaredTable, columns: frozenset[str] | None) -> DeclaredTable:
    """Table without null rules about columns that its relation lacks."""
    if columns is None:
        return table
    return replace(table, not_null=tuple(name for name in table.not_null if name in columns))


def _declared_of(name: str, table: DeclaredTable, relation: str, needed: str | None) -> Iterator[Check]:
    """Checks of one table: its grain, null rules and ranges."""
    grain, key = table.grain, ", ".join(table.grain)
    if grain:
        sql = f"select {key}, count(*) as row_count from {relation} group by {key} having count(*) > 1"
        yield Check(f"{name}_grain", f"{name} has one row per {key}.", "error", sql, needed)
    if table.not_null:
        names, broken = ", ".join(table.not_null), " or ".join(f"{column} is null" for column in table.not_null)
        sql = f"select {', '.join(dict.fromkeys([*grain, *table.not_null]))} from {relation} where {broken}"
        yield Check(f"{name}_not_null", f"No row of {name} lacks {names}.", "error", sql, needed)
    if table.ranges:
        rule = ", ".join(f"{column} {_range_text(*bounds)}" for column, bounds in table.ranges.items())
        broken = " or ".join(f"not ({_in_range(column, *bounds)})" for column, bounds in table.ranges.items())
        sql = f"select {', '.join(dict.fromkeys([*grain, *table.ranges]))} from {relation} where {broken}"
        yield Check(f"{name}_in_range", f"Values of {name} are in range: {rule}.", "error", sql, needed)


def _in_range(column: str, least: float | None, most: float | None) -> str:
    """Condition on a column; null where the column is. NaN, which DuckDB takes for the greatest number, breaks it."""
    conditions = [
        f"{column} >= {least}" if least is not None else "",
        f"{column} <= {most}" if most is not None else "",
    ]
    return " and ".join([*filter(None, conditions), *([] if most is not None else [f"not isnan({column}::double)"])])


def _range_text(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return f"at most {most}" if least is None else f"at least {least}"
    return f"{least}..{most}"


def _met_finding(check: Check) -> CheckFinding:
    return CheckFinding(check.name, check.rule, check.severity, 0, None)


def _run(connection: duckdb.DuckDBPyConnection, check: Check) -> CheckFinding:
    """Finding of a check. A count takes longer to plan than a search for one row."""
    if not has_rows(connection, f"({check.sql})"):
        return _met_finding(check)
    query = f"select count(*), min(broken::varchar) from ({check.sql}) as broken"
    broken_count, example = connection.execute(query).fetchone() or (0, None)
    return CheckFinding(check.name, check.rule, check.severity, broken_count, example)

"""Models of the `sql` package, run in dependency order to turn a run's verdicts into its marts.

A model is a file. Its name is that of the relation, its folder in `sql` the layer; its header states the kind of
relation, and its SQL the relations that it reads.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import duckdb

from gradebook.rubrics.model.errors import GradebookError
from gradebook.tasks.lake.sql import NO_PROGRESS_BAR, open_database, read_sql
from gradebook.tasks.marts.functions import add_functions

INTERMEDIATE = ("intermediate/scores", "intermediate/intervals", "intermediate/opinions", "intermediate/slices")
LAYERS = ("staging", *INTERMEDIATE, "marts")
SOURCES = frozenset(
    {
        *("source_outputs", "source_verdicts", "source_judgments", "source_run", "source_timings"),
        *("source_criteria", "source_category_weights", "source_categories", "source_steps", "source_case_criteria"),
        *("source_opinions", "source_agreement", "source_run_comparisons", "source_case_weights"),
    }
)


# Relation by its kind in a header, `-- materialized: table`. A table bounds the memory of one statement, and DuckDB
# takes longer to plan views of views than to write a few rows. A temporary table is neither compressed nor written
# to the file; compression takes longer, but in the file ten million rows need a third of the space.
MATERIALIZED: Mapping[str, str] = MappingProxyType({"view": "temp view", "table": "temp table", "file": "table"})
_MATERIALIZED = re.compile(r"^-- materialized: (\w+)$", re.MULTILINE)
# A mart or check with this line is not built or run where the source has no rows, or the mart that a check reads:
# planning a query takes longer.
_EMPTY_WITHOUT = re.compile(r"^-- empty without: (\w+)$", re.MULTILINE)
# What DuckDB's parser finds in the files of sql/, a hundred times as fast: a test holds the two to each other.
_COMMENT = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:from|join)\s+(\w+)\b(?!\s*\()")
_CTE = re.compile(r"\b(\w+) as (?:not )?(?:materialized )?\(")


class UnknownRelation(GradebookError):
    """File of the `sql` package that reads a relation which is neither a source nor a model."""

    def __init__(self, path: str, relation: str) -> None:
        super().__init__(path, relation)  # args == parameters, so it pickles

    def __str__(self) -> str:
        path, relation = self.args
        return f"{path}: reads {relation}, expected a source or a model of sql/"


@dataclass(frozen=True, slots=True)
class Model:
    """SQL file, named like the relation that it makes."""

    layer: str
    name: str
    sql: str

    @property
    def path(self) -> str:
        """Path of the file from the root of the wheel."""
        return f"sql/{self.layer}/{self.name}.sql"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Finding of one check of sql/checks; the check is met if broken_count is 0."""

    name: str
    rule: str
    severity: str  # error | warning
    broken_count: int
    example: str | None  # one breaking row as text


def connect_marts(path: Path, memory_limit: str = "4GB") -> duckdb.DuckDBPyConnection:
    """Open the run's own DuckDB file, which spills into `PATH.tmp` when memory_limit is reached.

    memory_limit: in DuckDB's notation, `900MB`; the process takes about 250 MB more at its peak.
    """
    connection = open_database(
        path,
        memory_limit=memory_limit,
        temp_directory=f"{path}.tmp",
        preserve_insertion_order=False,  # rows of a mart are unordered; preserving an order costs memory
    )
    connection.execute(NO_PROGRESS_BAR)
    return connection


def build_marts(connection: duckdb.DuckDBPyConnection, only: str | tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Build every model over the sources, which exist as views or tables; returns the marts' names in build order.

    Marts become tables, other models views unless their header names another kind; an earlier build is replaced. They
    last as long as the connection. only: build this mart, or these, and the dependencies, also where it is empty.
    """
    add_functions(connection)
    for macro in _read_layer("macros"):
        connection.execute(macro.sql)
    empty = () if only else [model.name for model in _empty_models(connection, _ordered_models())]
    for mart in empty:
        connection.execute(_without_rows(mart))
    wanted = (only,) if isinstance(only, str) else only or tuple(set(mart_names()).difference(empty))
    for model in _models_behind(wanted):
        connection.execute(f"create or replace {_relation(model)} {model.name} as {model.sql}")
    return tuple(name for name in mart_names() if name in {*wanted, *empty})


def _empty_models(connection: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> list[Model]:
    """Models whose header names a source, or a built model, that has no rows: they have none either."""
    named = {model: found[1] for model in models if (found := _EMPTY_WITHOUT.search(model.sql))}
    relations = sorted(set(named.values()))
    (filled,) = connection.execute(f"select {', '.join(f'exists (from {name})' for name in relations)}").fetchall()
    empty = {name for name, is_filled in zip(relations, filled, strict=True) if not is_filled}
    return [model for model, name in named.items() if name in empty]


def _without_rows(mart: str) -> str:
    """Statement that creates a mart as the lake has it, without rows."""
    _, _, below = read_sql("tables.sql").partition(f"create table if not exists {mart} (")
    return f"create or replace temp table {mart} ({below.partition(';')[0]}"


def _relation(model: Model) -> str:
    """Kind of relation that a model becomes: a table for marts, else as its header says, else a view."""
    named = _MATERIALIZED.search(model.sql)
    return MATERIALIZED[named[1] if named else "table" if model.layer == "marts" else "view"]


def _models_behind(names: tuple[str, ...]) -> tuple[Model, ...]:
    """Models with their direct and indirect dependencies, in build order."""
    models, wanted = _ordered_models(), {*names}
    known = SOURCES.union(model.name for model in models)
    for model in reversed(models):
        if model.name in wanted:
            wanted.update(relations_read(model, known))
    return tuple(model for model in models if model.name in wanted)


def run_sql_checks(connection: duckdb.DuckDBPyConnection) -> list[CheckFinding]:
    """Run every check over the built marts; returns one finding per check, by name, met or not."""
    empty = _empty_models(connection, _checks())
    return [_run_check(connection, check, is_met=check in empty) for check in _checks()]


def mart_names() -> tuple[str, ...]:
    """Names of the marts, in build order. Raises `UnknownRelation`."""
    return tuple(model.name for model in _ordered_models() if model.layer == "marts")


def model_order() -> tuple[str, ...]:
    """Names of all models, each after its dependencies. Raises `UnknownRelation`."""
    return tuple(model.name for model in _ordered_models())


@cache
def _ordered_models() -> tuple[Model, ...]:
    return order_models(tuple(model for layer in LAYERS for model in _read_layer(layer)))


@cache
def _checks() -> tuple[Model, ...]:
    checks = _read_layer("checks")
    known = SOURCES.union(model_order())
    for check in checks:
        relations_read(check, known)
    return checks


def order_models(models: tuple[Model, ...]) -> tuple[Model, ...]:
    """Sort models so that each comes after its dependencies. Raises `UnknownRelation`, `graphlib.CycleError`."""
    by_name = {model.name: model for model in models}
    known = SOURCES.union(by_name)
    graph = {model.name: relations_read(model, known) for model in models}
    return tuple(by_name[name] for name in TopologicalSorter(graph).static_order() if name in by_name)


def relations_read(model: Model, known: frozenset[str]) -> tuple[str, ...]:
    """Names of the relations that a model reads, sorted. Raises `UnknownRelation` for an unknown one."""
    code = _COMMENT.sub("", model.sql)
    relations = set(_READ.findall(code)) - set(_CTE.findall(code))
    if unknown := sorted(relations - known):
        raise UnknownRelation(model.path, unknown[0])
    return tuple(sorted(relations))


def _read_layer(layer: str) -> tuple[Model, ...]:
    entries = sorted(files("gradebook.sql").joinpath(layer).iterdir(), key=lambda entry: entry.name)
    return tuple(
        Model(layer, entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in entries
        if entry.name.endswith(".sql")
    )


def _run_check(connection: duckdb.DuckDBPyConnection, check: Model, *, is_met: bool) -> CheckFinding:
    """Finding of a check. is_met: it would find nothing."""
    rule, severity = _header(check)
    if is_met:
        return CheckFinding(check.name, rule, severity, 0, None)
    query = f"select count(*), min(broken::varchar) from ({check.sql}) as broken"
    found = connection.execute(query).fetchone()
    broken_count, example = found or (0, None)
    return CheckFinding(check.name, rule, severity, broken_count, example)


def _header(check: Model) -> tuple[str, str]:
    """Rule and severity of a check, from the leading comment and the line `-- severity: error|warning`."""
    rule, _, below = check.sql.partition("\n-- severity: ")
    return rule.removeprefix("-- ").replace("\n-- ", " "), below.partition("\n")[0]

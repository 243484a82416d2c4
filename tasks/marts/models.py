"""Models of the `sql` package, run in dependency order to turn a run's verdicts into its marts.

A model is a file. Its name is that of the relation, its folder in `sql` the layer; its header states the kind of
relation, and its SQL the relations that it reads.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import Means
from gradebook.rubrics.statistics.means import score_ends
from gradebook.rubrics.statistics.significance import shortfall_test
from gradebook.tasks.lake.sql import NO_PROGRESS_BAR, declared_tables, open_database, read_sql


def add_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the SQL functions; those of an earlier build on this connection stay."""
    double = connection.sqltype("double")  # duckdb.sqltype opens a database of its own
    interval = connection.struct_type({"low": double, "high": double})
    test = connection.struct_type({"p": double, "standard_error": double})
    # DuckDB refuses a second function of a name; its list of all functions would take longer than a run's marts.
    with suppress(duckdb.NotImplementedException):
        connection.create_function("score_ends", _score_ends, [double] * 8, interval, type=ARROW, null_handling=SPECIAL)
        connection.create_function("shortfall_test", _shortfall_test, [double] * 6, test, type=ARROW)


def _score_ends(  # noqa: PLR0913 - DuckDB counts them
    n: pa.Array,
    unit_count: pa.Array,
    mean: pa.Array,
    sd: pa.Array,
    error: pa.Array,
    df: pa.Array,
    skewness: pa.Array,
    level: pa.Array,
) -> pa.Array:
    """{low, high} of `score_ends` as a struct; NaN becomes null."""
    means = Means(*(_floats(column) for column in (n, unit_count, mean, sd, error, df)))
    interval = score_ends(means, _floats(skewness), level=_floats(level))
    return pa.StructArray.from_arrays([pa.array(bound, from_pandas=True) for bound in interval], ["low", "high"])


def _shortfall_test(
    n: pa.Array, rest_n: pa.Array, shortfall: pa.Array, sd: pa.Array, skewness: pa.Array, inflation: pa.Array
) -> pa.Array:
    """{p, standard_error} of `shortfall_test`; no argument is null."""
    tests = shortfall_test(*(_floats(column) for column in (n, rest_n, shortfall, sd, skewness, inflation)))
    return pa.StructArray.from_arrays([pa.array(column) for column in tests], ["p", "standard_error"])


def _floats(column: pa.Array) -> Floats:
    """Column as an array, NaN for null."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


INTERMEDIATE = ("intermediate/scores", "intermediate/intervals", "intermediate/opinions", "intermediate/slices")
LAYERS = ("staging", *INTERMEDIATE, "marts")
SOURCES = frozenset(
    {
        *("source_outputs", "source_verdicts", "source_judgments", "source_run", "source_timings"),
        *("source_criteria", "source_category_weights", "source_categories", "source_steps", "source_case_criteria"),
        *(
            "source_conditions",
            "source_opinions",
            "source_agreement",
            "source_audited",
            "source_run_comparisons",
            "source_case_weights",
        ),
    }
)


# Relation by its kind in a header, `-- materialized: table`. A table bounds the memory of one statement, and DuckDB
# takes longer to plan views of views than to write a few rows. A temporary table is neither compressed nor written
# to the file; compression takes longer, but in the file ten million rows need a third of the space.
MATERIALIZED: Mapping[str, str] = MappingProxyType({"view": "temp view", "table": "temp table", "file": "table"})
_MATERIALIZED = re.compile(r"^-- materialized: (\w+)$", re.MULTILINE)
# A table with this line is created empty, and a check is skipped, if the named relation has no rows: planning a
# query takes longer than running it over few rows.
_EMPTY_WITHOUT = re.compile(r"^-- empty without: (\w+)$", re.MULTILINE)
# Relations as DuckDB's parser finds them in sql/, a hundred times as fast: a test compares the two.
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

    @property
    def needed(self) -> str | None:
        """Relation named by the header: if it has no rows, this model has none."""
        match_ = _EMPTY_WITHOUT.search(self.sql)
        return match_[1] if match_ else None


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
    """Build every mart over the sources, which exist as views or tables; returns the marts' names in build order.

    Marts become tables, other models views unless their header names another kind; an earlier build is replaced. They
    last as long as the connection. only: build this mart, or these, with the models behind them.
    """
    add_functions(connection)
    for macro in read_layer("macros"):
        connection.execute(macro.sql)
    names = (only,) if isinstance(only, str) else only or mart_names()
    build = _Build(connection)
    for name in names:
        build.add(name)
    return tuple(name for name in mart_names() if name in names)


@dataclass(frozen=True, slots=True)
class _Build:
    """Build on a connection, of each model once."""

    connection: duckdb.DuckDBPyConnection
    has_rows: dict[str, bool] = field(default_factory=dict)  # by relation, where it is known
    added: set[str] = field(default_factory=set)

    def add(self, name: str) -> None:
        """Build a model, unless it is a source, after the relations that it reads."""
        model = _models().get(name)
        if model is None or name in self.added:
            return
        self.added.add(name)
        if model.needed is not None and self._is_empty(model.needed):
            self.connection.execute(_without_rows(model))
            self.has_rows[name] = False
            return
        for relation in relations_read(model, known_relations()):
            self.add(relation)
        count_rows = self.connection.execute(f"create or replace {_relation(model)} {name} as {model.sql}").fetchall()
        if count_rows:  # of a table; a view has none
            self.has_rows[name] = count_rows != [(0,)]

    def _is_empty(self, relation: str) -> bool:
        self.add(relation)
        if relation not in self.has_rows:
            self.has_rows[relation] = has_rows(self.connection, relation)
        return not self.has_rows[relation]


def has_rows(connection: duckdb.DuckDBPyConnection, relation: str) -> bool:
    return bool(connection.execute(f"select 1 from {relation} limit 1").fetchall())


def _without_rows(model: Model) -> str:
    """Statement that creates a model without rows, with the columns given in sql/."""
    if model.layer == "marts":
        body = declared_tables()[model.name].body
    else:
        _, _, below = read_sql("intermediate.sql").partition(f"create table if not exists {model.name} ")
        body = below.partition(";")[0]
    return f"create or replace {_relation(model)} {model.name} {body}"


def _relation(model: Model) -> str:
    """Kind of relation that a model becomes: a table for marts, else as its header says, else a view."""
    match_ = _MATERIALIZED.search(model.sql)
    return MATERIALIZED[match_[1] if match_ else "table" if model.layer == "marts" else "view"]


def mart_names() -> tuple[str, ...]:
    """Names of the marts, in build order. Raises `UnknownRelation`."""
    return tuple(name for name, model in _models().items() if model.layer == "marts")


def model_order() -> tuple[str, ...]:
    """Names of all models, each after its dependencies. Raises `UnknownRelation`."""
    return tuple(_models())


@cache
def _models() -> Mapping[str, Model]:
    """Models by name, in build order."""
    ordered = order_models(tuple(model for layer in LAYERS for model in read_layer(layer)))
    return {model.name: model for model in ordered}


@cache
def known_relations() -> frozenset[str]:
    """Names of all sources and models."""
    return SOURCES.union(_models())


def order_models(models: tuple[Model, ...]) -> tuple[Model, ...]:
    """Sort models so that each comes after its dependencies. Raises `UnknownRelation`, `graphlib.CycleError`."""
    by_name = {model.name: model for model in models}
    known = SOURCES.union(by_name)
    graph = {model.name: relations_read(model, known) for model in models}
    return tuple(by_name[name] for name in TopologicalSorter(graph).static_order() if name in by_name)


@cache
def relations_read(model: Model, known: frozenset[str]) -> tuple[str, ...]:
    """Names of the relations that a model reads, sorted. Raises `UnknownRelation` for an unknown one."""
    code = _COMMENT.sub("", model.sql)
    relations = set(_READ.findall(code)) - set(_CTE.findall(code))
    if unknown := sorted(relations - known):
        raise UnknownRelation(model.path, unknown[0])
    return tuple(sorted(relations))


@cache
def read_layer(layer: str) -> tuple[Model, ...]:
    entries = sorted(files("gradebook.sql").joinpath(layer).iterdir(), key=lambda entry: entry.name)
    return tuple(
        Model(layer, entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in entries
        if entry.name.endswith(".sql")
    )

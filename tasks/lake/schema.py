"""Tables and views of the lake: created if missing, extended if an earlier gradebook made them."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache

import duckdb

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.sql import described_tables, open_database, query, quoted, read_sql
from gradebook.tasks.lake.views import KNOWN_VIEWS, digest_of_view

CATALOG = "__ducklake_metadata_lake"  # DuckLake's name for the database of the catalog
SMALL_COUNT, SMALL_BYTES = 1_000, 2**20  # most rows, and bytes in files, of a table that is copied into memory
NARROWED = ("output_scores", "verdicts", "case_criteria", "written_feedback")
NARROWED_VIEWS = ("verdict_lines", "output_feedback")  # views over the narrowed tables
Columns = dict[tuple[str, str], str]  # (table, column) -> type, in order

_COLUMNS = """
select table_name, column_name, data_type from duckdb_columns()
where database_name = '{database}' and schema_name = 'main' and not internal order by table_name, column_index
"""
_FILL_CRITERIA = """
update criteria
set name = filled.name,
    rationale = filled.rationale,
    effective_weight = filled.effective_weight,
    position = filled.position
from filled_criteria as filled
where criteria.position is null
    and criteria.rubric_id = filled.rubric_id
    and criteria.rubric_version = filled.rubric_version
    and criteria.criterion_id = filled.criterion_id
"""
_FILL_QUESTIONS = (
    "update {table} set question_digest = filled.question_digest from filled_questions as filled "
    "where filled.{place} = {table}.{place} and filled.criterion_id = {table}.criterion_id"
)
_FILL_ONLY_QUESTIONS = (
    "update {table} set question_digest = filled.question_digest from only_questions as filled where "
    "{table}.question_digest is null and filled.output_id = {table}.output_id "
    "and filled.criterion_id = {table}.criterion_id"
)
_FILL_LEVELS = """
insert into levels by name from filled_levels
where not exists (from levels where rubric_id = ? and rubric_version = ?)
"""


def is_up_to_date(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether all tables, columns and views exist, the views with their current text."""
    found = set(connection.execute(query("lake/table_columns")).fetchall())
    views = _views(connection, None)
    return found.issuperset(_table_columns()) and all(views.get(name) == KNOWN_VIEWS[name][-1] for name in KNOWN_VIEWS)


def missing_parts(connection: duckdb.DuckDBPyConnection, at: int | None = None) -> list[str]:
    """Missing tables and views, and missing columns as `table.column`. at: the version read; None: the latest."""
    found = set(connection.execute(query("lake/table_columns")).fetchall())
    tables = {table for table, _ in found}
    names = [
        f"{table}.{column}" if table in tables else table
        for table, column in _table_columns()
        if (table, column) not in found
    ]
    return list(dict.fromkeys([*names, *sorted(KNOWN_VIEWS.keys() - _views(connection, at).keys())]))


def bring_up_to_date(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the missing tables, columns and views within the open transaction; drop nothing.

    Columns about rubrics that an earlier gradebook did not have are filled from the stored rubrics.
    """
    earlier = {table for table, _ in _columns(connection, "lake")}
    make_tables(connection)
    found = _columns(connection, "lake")
    for (table, column), kind in _table_columns().items():
        if (table, column) not in found:
            connection.execute(f'alter table "{quoted(table)}" add column "{quoted(column)}" {kind}')
    make_views(connection)
    _comment(connection)
    begin_statistics(connection)
    if "rubrics" in earlier:
        if "rubric_pointers" not in earlier:
            connection.execute(f"insert into rubric_pointers by name {query('lake/latest_rubrics')}")
        _fill_criteria(connection)
        if ("ratings", "question_digest") not in found:
            _fill_questions(connection)


def table_names() -> set[str]:
    """Names of the tables that gradebook makes."""
    return {table for table, _ in _table_columns()}


def column_types() -> Columns:
    """Type of each column of the tables and views that gradebook makes."""
    with open_database() as scratch:
        make_tables(scratch)
        make_views(scratch)
        return _columns(scratch, "memory")


def make_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(read_sql("tables.sql"))


def begin_statistics(connection: duckdb.DuckDBPyConnection) -> None:
    """Insert and delete a row in each table that never had one, so that DuckLake keeps statistics of it.

    Without statistics, DuckLake searches for them in every query that names the table, for 30 ms (DuckLake of
    DuckDB 1.5.5). A run's report queries tables that many lakes never fill (ratings, opinions, noise) dozens of times.
    """
    for table in tables_without_statistics(connection):
        connection.execute(f'insert into "{quoted(table)}" default values; delete from "{quoted(table)}"')


def tables_without_statistics(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Tables of gradebook that exist and never had a row, sorted."""
    made = table_names()
    begun = {table for (table,) in connection.execute(query("lake/begun_tables")).fetchall()}
    return sorted(made.intersection(table for table, _ in _columns(connection, "lake")) - begun)


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create or replace the views over the tables, each a `select` in a file of its name."""
    for view in KNOWN_VIEWS:
        connection.execute(f"create or replace view {view} as {read_sql(f'views/{view}.sql')}")


def _comment(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the descriptions of sql/columns.yml as comments on tables and columns, for other programs.

    DuckLake takes none on columns of views. Comments alone do not make a lake outdated: comparing them would slow down
    every command.
    """
    for table, words in described_tables().items():
        kind = "view" if table in KNOWN_VIEWS else "table"
        connection.execute(f"comment on {kind} {table} is '{quoted(words['description'])}'")
        for column, meaning in words["columns"].items() if kind == "table" else ():
            connection.execute(f"""comment on column {table}."{column}" is '{quoted(meaning)}'""")


def copy_small_tables(
    connection: duckdb.DuckDBPyConnection, only: Container[str] | None = None, *, stays_open: bool = False
) -> None:
    """Shadow the lake's small tables by copies in memory, for a block of many queries; all copies have one version.

    A query takes 4 ms for each table of a lake that it names, even an empty one, and a copy as long. Queries that name
    `lake.TABLE`, and views of the lake, read the lake itself. Copies keep the order of rows. only: names of tables.
    stays_open: the transaction lasts, for other reads of the lake: each takes a quarter of the time, and writers wait.
    """
    kinds: dict[str, list[str]] = {}
    for (table, column), kind in _table_columns().items():
        kinds.setdefault(table, []).append(f'"{quoted(column)}" {kind}')
    limits = {"most_count": SMALL_COUNT, "most_bytes": SMALL_BYTES}
    rows = connection.execute(query("lake/small_tables"), limits).fetchall()
    statements = [
        f"create temp table {table} ({', '.join(kinds[table])})"
        if is_empty
        else f"create temp table {table} as from lake.{table} order by rowid"
        for table, is_empty in rows
        if table in kinds and (only is None or table in only)
    ]
    ends = () if stays_open else ("commit",)
    connection.execute(";".join(["begin", *statements, *ends]))  # in one transaction, a third less time


def narrow_to_outputs(connection: duckdb.DuckDBPyConnection, run_id: str, output_ids: Sequence[str]) -> None:
    """Restrict this connection's view of a run's large tables, and of the views over them, to these outputs.

    A view assembles all outputs of a run, possibly millions, before a join selects some. Copies of small tables are
    narrowed in place, so the connection is narrowed once.
    """
    marks = ", ".join("?" for _ in output_ids) or "null"
    for table in NARROWED:
        narrowed = f"select * from {table} where run_id = ? and output_id in ({marks})"
        connection.execute(f"create or replace temp table {table} as {narrowed}", [run_id, *output_ids])
    narrowed = f"select * from outputs where output_id in ({marks})"
    connection.execute(f"create or replace temp table outputs as {narrowed}", list(output_ids))
    for view in NARROWED_VIEWS:
        connection.execute(f"create or replace temp view {view} as {read_sql(f'views/{view}.sql')}")


@contextmanager
def narrowed_to_outputs(
    connection: duckdb.DuckDBPyConnection, run_id: str, output_ids: Sequence[str]
) -> Iterator[None]:
    """Apply `narrow_to_outputs` for the duration of the block."""
    try:
        narrow_to_outputs(connection, run_id, output_ids)
        yield
    finally:
        for view in reversed(NARROWED_VIEWS):
            connection.execute(f"drop view if exists temp.{view}")
        for table in (*NARROWED, "outputs"):
            connection.execute(f"drop table if exists temp.{table}")


def _fill_criteria(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill in the columns of `criteria` and the rows of `levels` that earlier gradebooks did not write."""
    bodies = connection.execute(query("lake/unfilled_rubrics")).fetchall()
    if not bodies:
        return
    # Imported here: every command opens a lake, and few have something to fill in.
    from gradebook.rubrics.files.tables import criteria_table, levels_table

    for rubric in _readable(body for (body,) in bodies):
        connection.register("filled_criteria", criteria_table("", rubric))
        connection.execute(_FILL_CRITERIA)
        connection.register("filled_levels", levels_table(rubric))
        connection.execute(_FILL_LEVELS, [rubric.id, rubric.version])
    for table in ("filled_criteria", "filled_levels"):
        connection.unregister(table)


def _fill_questions(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill in the texts that people rated, as far as the lake tells.

    On the page of a run they rated the texts of the run's rubric; in a file the only text that the criterion has in the
    runs of the output. A rating of several possible texts stays without one.
    """
    import pyarrow as pa

    from gradebook.rubrics.files.tables import rubric_questions

    rows = [
        question | {"run_id": run_id, "source": source}
        for run_id, source, body in connection.execute(query("lake/runs_of_rated_outputs")).fetchall()
        for rubric in _readable([body])
        for question in rubric_questions(rubric)
    ]
    if not rows:
        return
    connection.register("filled_questions", pa.Table.from_pylist(rows))
    marks, decisions = ("ratings", "step_ratings", "claim_ratings"), ("adjudications", "step_adjudications")
    for table, place in (dict.fromkeys(marks, "source") | dict.fromkeys(decisions, "run_id")).items():
        connection.execute(_FILL_QUESTIONS.format(table=table, place=place))
    connection.execute(f"create or replace temp table only_questions as {query('lake/only_questions')}")
    for table in marks:
        connection.execute(_FILL_ONLY_QUESTIONS.format(table=table))
    connection.unregister("filled_questions")
    connection.execute("drop table only_questions")


def _readable(bodies: Iterable[str]) -> "Iterator[Rubric]":
    """Parse stored rubrics, skipping those that this gradebook can't read."""
    for body in bodies:
        with suppress(RubricError):
            yield rubric_from_body(body)


@cache
def _table_columns() -> Columns:
    """Columns of the tables alone: to make the views takes longer, and a command needs their digests only."""
    with open_database() as scratch:
        make_tables(scratch)
        return _columns(scratch, "memory")


def _columns(connection: duckdb.DuckDBPyConnection, database: str) -> Columns:
    rows = connection.execute(_COLUMNS.format(database=database)).fetchall()
    return {(table, column): kind for table, column, kind in rows}


def _views(connection: duckdb.DuckDBPyConnection, at: int | None) -> dict[str, str]:
    """Digest of each view of the lake at a version; None: the latest."""
    rows = connection.execute(query("lake/visible_views"), {"at": at}).fetchall()
    return {name: digest_of_view(text) for name, text, _ in rows}

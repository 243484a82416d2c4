"""Tables and views of the lake: created if missing, extended if an earlier gradebook made them, listed with their
columns.

Every command refuses views and macros that gradebook did not make: a view runs when it is read, with the rights of the
reader, and can read any file; a macro can replace any function. A catalog from elsewhere may contain either.
"""

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import duckdb

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError, LakeError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.sql import declared_tables, open_database, query, quoted, read_sql

CATALOG = "__ducklake_metadata_lake"  # DuckLake's name for the database of the catalog
SMALL_COUNT, SMALL_BYTES = 1_000, 2**20  # most rows, and bytes in files, of a table that is copied into memory
NARROWED = ("output_scores", "verdicts", "case_criteria", "written_feedback")
NARROWED_VIEWS = ("verdict_lines", "output_feedback")  # views over the narrowed tables
_ASKED_KEYS = "select distinct request_key from verdicts where request_key is not null"
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
    "where filled.{column} = {table}.{column} and filled.criterion_id = {table}.criterion_id"
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
    columns = set(connection.execute(query("lake/table_columns")).fetchall())
    views = _views(connection, None)
    return columns.issuperset(_table_columns()) and all(
        views.get(name) == KNOWN_VIEWS[name][-1] for name in KNOWN_VIEWS
    )


def missing_parts(connection: duckdb.DuckDBPyConnection, at: int | None = None) -> list[str]:
    """Missing tables and views, and missing columns as `table.column`. at: the version read; None: the latest."""
    columns = set(connection.execute(query("lake/table_columns")).fetchall())
    tables = {table for table, _ in columns}
    names = [
        f"{table}.{column}" if table in tables else table
        for table, column in _table_columns()
        if (table, column) not in columns
    ]
    return list(dict.fromkeys([*names, *sorted(KNOWN_VIEWS.keys() - _views(connection, at).keys())]))


def bring_up_to_date(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the missing tables, columns and views within the open transaction; drop nothing.

    Columns about rubrics that an earlier gradebook did not have are filled from the stored rubrics.
    """
    earlier = {table for table, _ in _columns(connection, "lake")}
    make_tables(connection)
    columns = _columns(connection, "lake")
    for (table, column), kind in _table_columns().items():
        if (table, column) not in columns:
            connection.execute(f'alter table "{quoted(table)}" add column "{quoted(column)}" {kind}')
    make_views(connection)
    _comment(connection)
    begin_statistics(connection)
    if "rubrics" in earlier:
        if "rubric_pointers" not in earlier:
            connection.execute(f"insert into rubric_pointers by name {query('lake/latest_rubrics')}")
        _fill_criteria(connection)
        if ("ratings", "question_digest") not in columns:
            _fill_questions(connection)


def table_names() -> set[str]:
    """Names of the tables that gradebook makes."""
    return {name for name, table in declared_tables().items() if table.types}


def column_types() -> Columns:
    """Type of each column of the tables and views that gradebook makes."""
    with open_database() as scratch:
        make_tables(scratch)
        make_views(scratch)
        return _columns(scratch, "memory")


def make_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the missing tables."""
    tables = {name: table for name, table in declared_tables().items() if table.types}
    connection.execute(";".join(f"create table if not exists {name} {table.body}" for name, table in tables.items()))


def begin_statistics(connection: duckdb.DuckDBPyConnection) -> None:
    """Insert and delete a row in each table that never had one, so that DuckLake keeps statistics of it.

    Without statistics, DuckLake searches for them in every query that names the table, for 30 ms (DuckLake of
    DuckDB 1.5.5). A run's report queries tables that many lakes never fill (ratings, opinions, noise) dozens of times.
    """
    for table in tables_without_statistics(connection):
        connection.execute(f'insert into "{quoted(table)}" default values; delete from "{quoted(table)}"')


def tables_without_statistics(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Tables of gradebook that exist and never had a row, sorted."""
    names = table_names()
    begun = {table for (table,) in connection.execute(query("lake/begun_tables")).fetchall()}
    return sorted(names.intersection(table for table, _ in _columns(connection, "lake")) - begun)


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create or replace the views over the tables, each a `select` in a file of its name."""
    for view in KNOWN_VIEWS:
        connection.execute(f"create or replace view {view} as {read_sql(f'views/{view}.sql')}")


def _comment(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the descriptions of sql/columns.yml as comments on tables and columns, for other programs.

    DuckLake takes none on columns of views. Comments alone do not make a lake outdated: comparing them would slow down
    every command.
    """
    for name, table in declared_tables().items():
        kind = "table" if table.types else "view"
        connection.execute(f"comment on {kind} {name} is '{quoted(table.description)}'")
        for column, meaning in table.columns.items() if table.types else ():
            connection.execute(f"""comment on column {name}."{column}" is '{quoted(meaning)}'""")


def copy_small_tables(
    connection: duckdb.DuckDBPyConnection, only: Container[str] | None = None, *, stays_open: bool = False
) -> None:
    """Shadow the lake's small tables by copies in memory, for a block of many queries; all copies have one version.

    A query takes 4 ms for each table of a lake that it names, even if empty; a copy takes as long. Queries that name
    `lake.TABLE`, and views of the lake, read the lake itself. Copies keep the order of rows. only: names of tables.
    stays_open: leave the transaction open for other reads of the lake: each takes a quarter of the time; writers wait.
    """
    declared, names = declared_tables(), table_names()
    limits = {"most_count": SMALL_COUNT, "most_bytes": SMALL_BYTES}
    rows = connection.execute(query("lake/small_tables"), limits).fetchall()
    statements = [
        f"create temp table {table} {declared[table].body}"
        if is_empty
        else f"create temp table {table} as from lake.{table} order by rowid"
        for table, is_empty in rows
        if table in names and (only is None or table in only)
    ]
    commit = () if stays_open else ("commit",)
    connection.execute(";".join(["begin", *statements, *commit]))  # in one transaction, a third less time


def narrow_to_outputs(connection: duckdb.DuckDBPyConnection, run_id: str, output_ids: Sequence[str]) -> None:
    """Restrict this connection's view of a run's large tables, and of the views over them, to these outputs; and
    `judgments` to the replies behind their verdicts, in whichever run they were paid for.

    A view assembles all outputs of a run, possibly millions, before a join selects some. Copies of small tables are
    narrowed in place, so the connection is narrowed once.
    """
    marks = ", ".join("?" for _ in output_ids) or "null"
    for table in NARROWED:
        narrowed = f"select * from {table} where run_id = ? and output_id in ({marks})"
        connection.execute(f"create or replace temp table {table} as {narrowed}", [run_id, *output_ids])
    narrowed = f"select * from outputs where output_id in ({marks})"
    connection.execute(f"create or replace temp table outputs as {narrowed}", list(output_ids))
    keys = [key for (key,) in connection.execute(_ASKED_KEYS).fetchall()]
    narrowed = f"select * from judgments where request_key in ({', '.join('?' for _ in keys) or 'null'})"
    connection.execute(f"create or replace temp table judgments as {narrowed}", keys)
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
        for table in (*NARROWED, "outputs", "judgments"):
            connection.execute(f"drop table if exists temp.{table}")


def _fill_criteria(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill in the columns of `criteria` and the rows of `levels` that earlier versions of gradebook did not write."""
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
    """Fill in the digest of the criterion text that each rating is about, where the lake determines it.

    Ratings of a run's page are of the texts of the run's rubric. Ratings of a file are of the criterion's only text in
    the runs of the output. A rating with several possible texts remains without a digest.
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
    for table, column in (dict.fromkeys(marks, "source") | dict.fromkeys(decisions, "run_id")).items():
        connection.execute(_FILL_QUESTIONS.format(table=table, column=column))
    connection.execute(f"create or replace temp table only_questions as {query('lake/only_questions')}")
    for table in marks:
        connection.execute(_FILL_ONLY_QUESTIONS.format(table=table))
    connection.unregister("filled_questions")
    connection.execute("drop table only_questions")


def _readable(bodies: Iterable[str]) -> "Iterator[Rubric]":
    """Parsed rubrics of the stored texts, without those that this gradebook can't read."""
    for body in bodies:
        with suppress(RubricError):
            yield rubric_from_body(body)


@cache
def _table_columns() -> Columns:
    """Type of each column of the tables, as declared."""
    return {(name, column): kind for name, table in declared_tables().items() for column, kind in table.types.items()}


def _columns(connection: duckdb.DuckDBPyConnection, database: str) -> Columns:
    rows = connection.execute(_COLUMNS.format(database=database)).fetchall()
    return {(table, column): kind for table, column, kind in rows}


def _views(connection: duckdb.DuckDBPyConnection, at: int | None) -> dict[str, str]:
    """Digest of each view of the lake at a version; None: the latest."""
    rows = connection.execute(query("lake/visible_views"), {"at": at}).fetchall()
    return {name: digest_of_view(text) for name, text, _ in rows}


# Digests of the views' stored texts, of each version of gradebook, the current one last. Add the digest of a changed
# view, keep the others. Each view comes after the views it reads.
KNOWN_VIEWS = {
    "criterion_ladders": ("2283875e32f1bc36200c019e70ac867a",),
    "verdict_lines": (
        "a6617511ec2000079d41a40fca929b74",
        "42fe8eced4be649358eb3e40636f501d",
        "0dae41769dfe17d25adfaae617354351",
    ),
    "mean_lines": ("e236563ab43fb9bc4e4edbd53d1de9be", "ddb49d1aff98a7569491168ee87a4227"),
    "output_feedback": ("78bd757f3d06a9093bc1796d67537454", "cb7fd5563ac3f6772b7c41dd1b7f9f1b"),
    "run_feedback": ("2ba9ec8641077e13fb39bdbbbb4289b0", "ca89289f839bea73de8227b0f62654fb"),
    "score_history": (
        "58ddfa674b63f7ee311011c5e93a161b",
        "435a3322d631c11dc8b24f921b50624a",
        "f9ca5691521a6709cf0990e22e8f842e",
        "997048067ba6843b1476bc33872c0c77",
        "2bfdf16f416b69c54c9f70d236817ead",
    ),
    "criterion_history": (
        "dc8e21866b3bacc1caf8834fef4efa5d",
        "19204c0570766e9d552252dc630623e2",
        "f7a160fdaca6da065104b17346640a6f",
    ),
    "latest_runs": ("fdea334ce66aba4e154750d4289869f3", "2b23456ad269ae07a1f55b2c28e71a7a"),
    "latest_run_scores": (
        "1c3671f22780b0e285bffe0a968569ef",
        "cdb71ef00838cadd28f759e2759b6c44",
        "229712247440565e345191b6a0f42691",
    ),
    "latest_criterion_scores": (
        "32c54677e479561f7c784ed127f122c1",
        "31b5e0e2fdb2463a79161ad96a618a46",
        "7f25b9f7550ad9cfb0a06e99cdc8cf9e",
    ),
    "latest_output_scores": (
        "9d010b8b21a92b96406b6fe004ede086",
        "97066ea574dc5010e661e2d3654624ec",
        "d6fed11a0a36584b01943b308f2686f0",
    ),
    "cost_history": ("26869418fb2c8a730fe3013058733f7d",),
    "worst_outputs": ("dc6ed085318aa1ed7bac40314c5081b6",),
    "steps": ("176cb0cac40d9180b3a4966285e62e57",),
    "listed_requirements": ("a63051b1272d9e0a0d415de0f50d20fb",),
    "judge_gaps": ("db8c6daabc4950680d0d195b1b24fc52",),
    "preference_rates": ("cc2ff4d10cac417d124203cb8403a527",),
    "reward_guards": ("f676012e5182b2559dc29d437ed923d4", "92c40f234a3e59a3aa6fb4ac956650bc"),
    "provenance": ("4bc3028d4ae3110939e3ca9032e00875", "0686d41f84945bef5f8d73f1faa36aba"),
    "outcome_scores": ("5d2d71770613ae0dea06a35028899ac2",),
}


def digest_of_view(text: str) -> str:
    """Digest of a view's text as the catalog stores it."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_VIEWS_EVER = f"select distinct lower(view_name) from {CATALOG}.ducklake_view"
_MACROS = f"select macro_name from {CATALOG}.ducklake_macro order by all limit 1"


def refuse_foreign_parts(connection: duckdb.DuckDBPyConnection, lake: Lake, at: int | None) -> None:
    """Raise `LakeError` for a catalog in which a command would read something that gradebook did not make.

    Refused are a view with the name of one of gradebook's tables or views, a macro, and a data file outside the data
    folder. Other views are not read: `gradebook sql` refuses them by name. at: version read; None: the latest.
    """
    own_names = KNOWN_VIEWS.keys() | table_names()
    for name in sorted(foreign_views(connection, at) & own_names):
        raise _foreign_part_error(lake, f"a view {name} that gradebook did not make")
    for (name,) in connection.execute(_MACROS).fetchall():
        raise _foreign_part_error(lake, f"a function {name} in the catalog")
    for (path,) in connection.execute(query("lake/outside_paths")).fetchall():
        raise _foreign_part_error(lake, f"a data file {path!r} outside the data folder")


def foreign_views(connection: duckdb.DuckDBPyConnection, at: int | None) -> set[str]:
    """Lower-case names of the views, at a version, that no version of gradebook made."""
    rows = connection.execute(query("lake/visible_views"), {"at": at}).fetchall()
    return {name for name, text, aliases in rows if aliases or digest_of_view(text) not in KNOWN_VIEWS.get(name, ())}


def views_ever(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Lower-case names of the views of any version."""
    return {name for (name,) in connection.execute(_VIEWS_EVER).fetchall()}


def _foreign_part_error(lake: Lake, part: str) -> LakeError:
    return LakeError(
        lake.name,
        part,
        "only what gradebook itself puts into a lake",
        "a newer gradebook may have made it; else remove it, or do not use this lake",
    )


KINDS = ("table", "mart", "view")


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column: its type in SQL, its meaning and unit."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table, mart or view. description: its grain and content."""

    name: str
    kind: str
    description: str
    columns: tuple[ColumnDescription, ...]

    @property
    def line(self) -> str:
        """First sentence of the description, without the word for the kind."""
        sentence = self.description.removeprefix("A view, ").partition(". ")[0].rstrip(".")
        return sentence[0].upper() + sentence[1:]


@cache
def list_tables() -> tuple[TableDescription, ...]:
    """Tables, then marts, then views, as sql/columns.yml describes them."""
    types = column_types()
    described = []
    for name, table in declared_tables().items():
        columns = (ColumnDescription(column, types[name, column], text) for column, text in table.columns.items())
        described.append(TableDescription(name, _kind(name), table.description, tuple(columns)))
    return tuple(sorted(described, key=lambda table: KINDS.index(table.kind)))


def find_table(name: str) -> TableDescription:
    """Description of a table, mart or view. Raises `InputError` for another name."""
    description = next((table for table in list_tables() if table.name == name.lower()), None)
    if description is None:
        raise InputError("tables", repr(name), "a name that `gradebook lake tables` lists")
    return description


def _kind(name: str) -> str:
    if name in KNOWN_VIEWS:
        return "view"
    return "mart" if files("gradebook.sql").joinpath("marts").joinpath(f"{name}.sql").is_file() else "table"

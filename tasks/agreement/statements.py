"""The table `statements`: scores by raters and judges of a run's outputs, on one scale, to measure agreement on."""

from contextlib import suppress

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.files.tables import LEVELS_SCHEMA, levels_table
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.ratings.evaluation_file import OVERALL
from gradebook.tasks.workspace.folder import RunFolder

RATER, JUDGE, MEMBER, SETTLED = "rater", "judge", "member", "settled"  # sides of statements.sql

_RATINGS = "select *, false as is_from_file, rowid as line from ratings"
_NEWER = "null::varchar as selection, null::double as spent_s, null::double as gold_score"
_WITH_NEWER = f"union all by name select {_NEWER} where false"  # older tables lack these columns
_OF_LAKE = f"{_RATINGS} where output_id in (select output_id from run_outputs) {_WITH_NEWER}"
_DECISIONS = "select *, rowid as line from adjudications where output_id in (select output_id from run_outputs)"
_NO_DECISIONS = (
    "select null::varchar as output_id, null::varchar as criterion_id, null::varchar as adjudicator, "
    "null::varchar as level_id, null::double as score, null::timestamptz as decided_at, 0 as line where false"
)
_OF_RUBRIC = "semi join (from runs {of_run}) as run using (rubric_id, rubric_version)"
_SHARED = "output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared"
_LEVELS_SCHEMA = pa.schema([LEVELS_SCHEMA.field(name) for name in ("criterion_id", "level_id", "score")])
_HAS_SEVERAL = "select count(distinct judge) > 1 from agreed_opinions"


def add_statements_of_files(
    connection: duckdb.DuckDBPyConnection, lake: Lake, folder: RunFolder, rubric: Rubric
) -> bool:
    """Make `statements` from a run's sources, before it is published. Returns whether there is anything to compare.

    Ratings come from the run's ratings file, which includes those of the lake, or else from the lake.
    """
    ratings = None if folder.ratings_file.exists() else _lake_ratings(connection, lake)
    if ratings is not None and not ratings.num_rows and not folder.detail_files("opinions"):
        return False
    connection.execute("create or replace temp view agreed_verdicts as from source_verdicts")
    connection.execute("create or replace temp view agreed_opinions as from source_opinions")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from source_outputs")
    levels = levels_table(rubric).select(_LEVELS_SCHEMA.names)
    connection.register("agreed_levels", pa.concat_tables([levels, _overall_levels(rubric)]))
    _add_criteria(connection, "source_criteria", "source_case_criteria")
    if ratings is None:
        connection.execute(
            "create or replace temp view agreed_ratings as "
            f"from read_parquet('{quoted(str(folder.ratings_file))}') {_WITH_NEWER}"
        )
    else:
        connection.register("agreed_ratings", ratings)
    # Decisions come after publication; a rebuild has to find the same figures.
    connection.execute(f"create or replace temp view agreed_decisions as {_NO_DECISIONS}")
    return add_statements(connection)


def add_statements_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> bool:
    """Make `statements` from what the lake holds of a published run, and of all ratings of its outputs by now.

    connection: to the lake. Returns whether there is anything to compare.
    """
    add_ratings_of_run(connection, run_id)
    add_decisions_of_run(connection)
    return _add_statements(connection)


def add_ratings_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Make latest_ratings from all current ratings of a published run's outputs, and the run's relations.

    connection: to the lake. The relations are agreed_verdicts, agreed_opinions, agreed_outputs, agreed_levels and
    agreed_criteria.
    """
    add_criteria_of_run(connection, run_id)
    of_run = f"where run_id = '{quoted(run_id)}'"
    for table in ("verdicts", "opinions"):
        connection.execute(f"create or replace temp view agreed_{table} as from lake.{table} {of_run}")
    connection.execute(f"create or replace temp view run_outputs as select output_id from output_scores {of_run}")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from output_scores {of_run}")
    connection.execute(f"create or replace temp view agreed_ratings as {_OF_LAKE}")
    make_table(connection, "agreement/latest_ratings")


def add_decisions_of_run(connection: duckdb.DuckDBPyConnection) -> None:
    """Make latest_decisions, which is empty at a version before there were decisions. Needs `add_ratings_of_run`."""
    for decisions in (_DECISIONS, _NO_DECISIONS):
        with suppress(duckdb.CatalogException):
            connection.execute(f"create or replace temp view agreed_decisions as {decisions}")
            break
    make_table(connection, "agreement/latest_decisions")


def add_criteria_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Make agreed_levels and agreed_criteria, the criteria that apply to a published run's outputs.

    connection: to the lake. agreed_criteria: one row for each criterion of the rubric and for its overall row, if any,
    with output_id null; and one row for each output and per-case criterion.
    """
    of_run = f"where run_id = '{quoted(run_id)}'"
    of_rubric = _OF_RUBRIC.format(of_run=of_run)
    overall = _LEVELS_SCHEMA.empty_table()
    for (body,) in connection.execute(f"select body from rubrics {of_rubric}").fetchall():
        with suppress(RubricError):  # of another gradebook: the tables describe its criteria
            overall = _overall_levels(rubric_from_body(body))
    connection.register("overall_levels", overall)
    connection.execute(
        f"create or replace temp table agreed_levels as "
        f"select {', '.join(_LEVELS_SCHEMA.names)} from levels {of_rubric} union all by name from overall_levels"
    )
    connection.unregister("overall_levels")
    _add_criteria(connection, f"(from criteria {of_rubric})", f"(from case_criteria {of_run})")


def add_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make `statements` from agreed_ratings, _decisions, _verdicts, _opinions, _outputs, _levels and _criteria.

    Returns whether there is anything to compare.
    """
    make_table(connection, "agreement/latest_ratings")
    make_table(connection, "agreement/latest_decisions")
    return _add_statements(connection)


def _add_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    ((rating_count,),) = connection.execute("select count(*) from latest_ratings").fetchall()
    ((has_several_judges,),) = connection.execute(_HAS_SEVERAL).fetchall()
    if not rating_count and not has_several_judges:
        return False
    make_table(connection, "agreement/statements")
    return True


def _add_criteria(connection: duckdb.DuckDBPyConnection, criteria: str, own_criteria: str) -> None:
    connection.execute(
        "create or replace temp view agreed_criteria as "
        f"select criterion_id, null::varchar as output_id from {criteria} "
        f"union all select criterion_id, output_id from {own_criteria} "
        f"union all select distinct criterion_id, null from agreed_levels where criterion_id = '{OVERALL}'"
    )


def _overall_levels(rubric: Rubric) -> pa.Table:
    """Levels of the overall row, if the rubric has one."""
    levels = rubric.overall.ranked_levels if rubric.overall else ()
    rows = [{"criterion_id": OVERALL, "level_id": level.id, "score": level.score} for level in levels]
    return pa.Table.from_pylist(rows, schema=_LEVELS_SCHEMA)


def _lake_ratings(connection: duckdb.DuckDBPyConnection, lake: Lake) -> pa.Table:
    """Ratings in the lake of the run's outputs; skips reading the outputs if the lake has no ratings at all."""
    with connect(lake, read_only=True) as reader:
        if not reader.execute("select 1 from ratings limit 1").fetchall():
            return reader.execute(f"{_RATINGS} where false {_WITH_NEWER}").to_arrow_table()
        output_ids = connection.execute("select output_id from source_outputs").to_arrow_table()
        reader.register("run_outputs", output_ids)
        return reader.execute(_OF_LAKE).to_arrow_table()

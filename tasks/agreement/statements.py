"""The table `statements`: scores by raters and judges of a run's outputs, on one scale, to measure agreement on."""

from contextlib import suppress

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.tables import LEVELS_SCHEMA, levels_table
from gradebook.rubrics.model.rubric import OVERALL, Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.rubric_store.questions import add_questions, add_questions_of_run
from gradebook.tasks.workspace.folder import RunFolder

RATER, JUDGE, MEMBER, SETTLED = "rater", "judge", "member", "settled"  # sides of statements.sql

_NEWER = (
    "null::varchar as selection, null::double as spent_s, null::double as gold_score, null::varchar as question_digest"
)
_WITH_NEWER = f"union all by name select {_NEWER} where false"  # older tables lack these columns
_OF_LAKE = (
    "select *, false as is_from_file, rowid as line from ratings "
    f"where output_id in (select output_id from run_outputs) {_WITH_NEWER}"
)
_DECISIONS = "select *, rowid as line from adjudications where output_id in (select output_id from run_outputs)"
_DECISIONS_OF_FILE = (
    "select output_id, criterion_id, rater as adjudicator, level_id, score, rated_at as decided_at, question_digest, "
    "line from given_ratings where source = 'adjudication'"
)
NO_DECISIONS = (  # of a version before there were some
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
    if folder.ratings_file.exists():
        connection.execute(
            "create or replace temp view given_ratings as "
            f"from read_parquet('{quoted(str(folder.ratings_file))}') {_WITH_NEWER}"
        )
        decisions = _DECISIONS_OF_FILE
    else:
        ratings, of_lake = _lake_ratings(connection, lake)
        if not ratings.num_rows and not folder.detail_files("opinions"):
            return False
        connection.register("given_ratings", ratings)
        connection.register("given_decisions", of_lake)
        decisions = "from given_decisions"
    connection.execute("create or replace temp view agreed_verdicts as from source_verdicts")
    connection.execute("create or replace temp view agreed_opinions as from source_opinions")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from source_outputs")
    levels = levels_table(rubric).select(_LEVELS_SCHEMA.names)
    connection.register("agreed_levels", pa.concat_tables([levels, _overall_levels(rubric)]))
    add_questions(connection, rubric, "source_case_criteria")
    for name, given in (("ratings", "given_ratings"), ("decisions", f"({decisions})")):
        answers = query("rubric_store/answers", given=given)
        connection.execute(f"create or replace temp view agreed_{name} as {answers}")
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
    asked_questions.
    """
    add_criteria_of_run(connection, run_id)
    of_run = f"where run_id = '{quoted(run_id)}'"
    for table in ("verdicts", "opinions"):
        connection.execute(f"create or replace temp view agreed_{table} as from lake.{table} {of_run}")
    connection.execute(f"create or replace temp view run_outputs as select output_id from output_scores {of_run}")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from output_scores {of_run}")
    answers = query("rubric_store/answers", given=f"({_OF_LAKE})")
    connection.execute(f"create or replace temp view agreed_ratings as {answers}")
    make_table(connection, "agreement/latest_ratings")


def add_decisions_of_run(connection: duckdb.DuckDBPyConnection) -> None:
    """Make latest_decisions, which is empty at a version before there were decisions. Needs `add_ratings_of_run`."""
    for decisions in (_DECISIONS, NO_DECISIONS):
        with suppress(duckdb.CatalogException):
            answers = query("rubric_store/answers", given=f"({decisions})")
            connection.execute(f"create or replace temp view agreed_decisions as {answers}")
            break
    make_table(connection, "agreement/latest_decisions")


def add_criteria_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Make agreed_levels and asked_questions, of the criteria that apply to a published run's outputs.

    connection: to the lake.
    """
    of_rubric = _OF_RUBRIC.format(of_run=f"where run_id = '{quoted(run_id)}'")
    rubric = add_questions_of_run(connection, run_id)
    connection.register("overall_levels", _LEVELS_SCHEMA.empty_table() if rubric is None else _overall_levels(rubric))
    connection.execute(
        f"create or replace temp table agreed_levels as "
        f"select {', '.join(_LEVELS_SCHEMA.names)} from levels {of_rubric} union all by name from overall_levels"
    )
    connection.unregister("overall_levels")


def add_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make `statements` from agreed_ratings, _decisions, _verdicts, _opinions, _outputs, _levels and asked_questions.

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


def _overall_levels(rubric: Rubric) -> pa.Table:
    """Levels of the overall row, if the rubric has one."""
    levels = rubric.overall.ranked_levels if rubric.overall else ()
    rows = [{"criterion_id": OVERALL, "level_id": level.id, "score": level.score} for level in levels]
    return pa.Table.from_pylist(rows, schema=_LEVELS_SCHEMA)


def _lake_ratings(connection: duckdb.DuckDBPyConnection, lake: Lake) -> tuple[pa.Table, pa.Table]:
    """Ratings in the lake of the run's outputs, and decisions; reads no outputs if the lake has no ratings."""
    with connect(lake, read_only=True) as reader:
        has_ratings = bool(reader.execute("select 1 from ratings limit 1").fetchall())
        select = f"select output_id from source_outputs {'' if has_ratings else 'limit 0'}"
        reader.register("run_outputs", connection.execute(select).to_arrow_table())
        return reader.execute(_OF_LAKE).to_arrow_table(), reader.execute(_DECISIONS).to_arrow_table()

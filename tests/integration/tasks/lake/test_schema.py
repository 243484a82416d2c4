"""Lakes of earlier gradebooks get the tables, columns and views that they miss, and what belongs there."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.files.tables import LEVELS_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake import schema
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.schema import (
    KNOWN_VIEWS,
    copy_small_tables,
    digest_of_view,
    is_up_to_date,
    make_tables,
    narrow_to_outputs,
    tables_without_statistics,
)
from gradebook.tasks.lake.sql import declared_tables
from gradebook.tasks.rubric_store.versions import delete_pointer, store_rubric
from tests.support.nightly import nightly

NOW = datetime(2026, 11, 1, tzinfo=UTC)
GENERAL = read_rubric("general_answer")
CRITERIA_COLUMNS = "criterion_id, category, weight, is_gate, digest, name, rationale, effective_weight, position"
MEANINGS = {text for table in declared_tables().values() for text in (table.description, *table.columns.values())}
COLUMNS = {"criteria": CRITERIA_COLUMNS, "levels": ", ".join(LEVELS_SCHEMA.names)}


def test_a_new_lake_is_up_to_date(lake: Lake):
    with connect(lake) as connection:
        assert is_up_to_date(connection)


def test_what_tables_views_and_columns_mean_stands_beside_them(lake: Lake):
    places = {"runs": "duckdb_tables()", "score_history": "duckdb_views()", "cost_usd": "duckdb_columns()"}
    with connect(lake, read_only=True) as connection:
        for name, place in places.items():
            found = f"select comment from {place} where database_name = 'lake' and {place[7:-3]}_name = '{name}'"
            comments = [comment for (comment,) in connection.execute(found).fetchall() if comment]
            assert comments, name
            assert set(comments) <= MEANINGS


@pytest.mark.nightly
def test_a_table_of_a_new_lake_has_statistics_and_no_row(lake: Lake):
    with connect(lake, read_only=True) as connection:
        assert tables_without_statistics(connection) == []
        tables = connection.execute("select table_name from duckdb_tables() where database_name = 'lake'").fetchall()
        assert len(tables) > 20
        assert all(connection.execute(f"from {table}").fetchall() == [] for (table,) in tables)


@pytest.mark.nightly
def test_compaction_begins_the_statistics_of_a_table_that_never_had_a_row(lake: Lake):
    def earlier(connection, _version):
        connection.execute("drop table ratings")
        make_tables(connection)
        connection.execute("create table others (name varchar not null, n integer)")

    commit(lake, "earlier", earlier)
    with connect(lake, read_only=True) as connection:
        assert tables_without_statistics(connection) == ["ratings"]
    for _ in range(2):
        compact_lake(lake)
    with connect(lake, read_only=True) as connection:
        assert tables_without_statistics(connection) == []
        assert connection.execute("select count(*), max(rater) from ratings").fetchall() == [(0, None)]
        messages = connection.execute("select commit_message from ducklake_snapshots('lake')").fetchall()
    assert messages.count(("begin statistics",)) == 1


def test_preparing_a_lake_that_is_up_to_date_commits_nothing(lake: Lake):
    def version() -> object:
        with connect(lake) as connection:
            return connection.execute("select max(snapshot_id) from ducklake_snapshots('lake')").fetchone()

    before = version()
    prepare_lake(lake)
    assert version() == before


@pytest.mark.parametrize(
    "change",
    [
        "drop view output_feedback",
        *nightly(
            [
                "drop table case_criteria",
                "alter table criteria drop column effective_weight",
                "create or replace view output_feedback as select 1 as one",
                "create or replace view criterion_ladders as select 1 as one",
            ]
        ),
    ],
)
def test_an_older_lake_gets_what_it_misses(lake: Lake, monkeypatch: pytest.MonkeyPatch, change: str):
    earlier = digest_of_view("SELECT 1 AS one")
    for view in ("output_feedback", "criterion_ladders"):
        monkeypatch.setitem(KNOWN_VIEWS, view, (earlier, *KNOWN_VIEWS[view]))
    commit(lake, "an earlier gradebook", lambda connection, _version: connection.execute(change))
    prepare_lake(lake)
    with connect(lake) as connection:
        assert is_up_to_date(connection)


@pytest.mark.nightly
def test_rows_of_an_older_lake_stay(lake: Lake):
    def body(connection, _version):
        connection.execute("alter table criteria drop column effective_weight")
        connection.execute("insert into criteria (rubric_id, criterion_id, weight) values ('r', 'tone', 0.5)")

    commit(lake, "an earlier gradebook", body)
    prepare_lake(lake)
    with connect(lake) as connection:
        assert connection.execute("select weight, effective_weight from criteria").fetchall() == [(0.5, None)]


# -------- what an earlier gradebook did not note of its rubrics
def age(lake: Lake, *kept: Rubric, changes: str = "") -> None:
    """Keep these rubrics as an earlier gradebook did: no pointers, no levels, fewer columns."""

    def body(connection, _version):
        for rubric in kept:
            store_rubric(connection, rubric, NOW)
        connection.execute(changes)
        for view in reversed(KNOWN_VIEWS):
            connection.execute(f"drop view {view}")
        for table in ("rubric_pointers", "levels"):
            connection.execute(f"drop table {table}")
        for column in ("name", "rationale", "effective_weight", "position"):
            connection.execute(f"alter table criteria drop column {column}")

    commit(lake, "an earlier gradebook", body)


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with connect(lake, read_only=True) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.nightly
def test_the_pointers_are_the_highest_versions(lake: Lake):
    other = GENERAL.model_copy(update={"id": "other"})
    age(lake, *(GENERAL.model_copy(update={"version": version}) for version in ("1.9.0", "1.10.0", "1.2.0")), other)
    prepare_lake(lake)
    found = rows(lake, "select rubric_id, rubric_version, epoch(set_at) from rubric_pointers order by all")
    assert found == [("general_answer", "1.10.0", NOW.timestamp()), ("other", GENERAL.version, NOW.timestamp())]


@pytest.mark.nightly
def test_a_pointer_that_was_deleted_stays_away(lake: Lake):
    age(lake, GENERAL)
    prepare_lake(lake)
    delete_pointer(lake, GENERAL.id)
    commit(lake, "an older view", lambda connection, _version: connection.execute("drop view run_feedback"))
    prepare_lake(lake)
    assert rows(lake, "from rubric_pointers") == []


@pytest.mark.parametrize("table", ["criteria", *nightly(["levels"])])
def test_an_older_lake_holds_the_same_of_its_rubrics_as_a_new_one(lake: Lake, table: str):
    commit(lake, "keep", lambda connection, _version: store_rubric(connection, GENERAL, NOW))
    new = rows(lake, f"select {COLUMNS[table]} from {table} order by all")
    age(lake)
    prepare_lake(lake)
    assert rows(lake, f"select {COLUMNS[table]} from {table} order by all") == new


@pytest.mark.nightly
def test_what_is_filled_in_is_filled_in_once(lake: Lake):
    age(lake, GENERAL)
    prepare_lake(lake)
    commit(lake, "an older view", lambda connection, _version: connection.execute("drop view run_feedback"))
    prepare_lake(lake)
    # four criteria of three levels, and a check
    assert rows(lake, "select (select count(*) from criteria), (select count(*) from levels)") == [(5, 14)]


@pytest.mark.nightly
def test_what_a_criterion_said_already_stays(lake: Lake):
    age(lake, GENERAL, changes="update criteria set digest = null, weight = 7")
    prepare_lake(lake)
    assert rows(lake, "select distinct digest, weight, effective_weight > 1 from criteria") == [(None, 7.0, False)]


@pytest.mark.parametrize("body", ["no JSON", *nightly(["{}", None])])
def test_a_rubric_that_this_gradebook_can_not_read_stays_as_it_is(lake: Lake, body: str | None):
    text = "null" if body is None else f"'{body}'"
    age(lake, GENERAL, changes=f"update rubrics set body = {text}")
    prepare_lake(lake)
    counts = "(select count(*) from levels), (select count(position) from criteria)"
    assert rows(lake, f"select {counts}, body from rubrics") == [(0, 0, body)]


def test_a_connection_narrowed_to_some_outputs_tells_of_them_alone(lake: Lake):
    def fill(connection: Any, _version: int) -> None:
        connection.execute("insert into runs by name select 'r' as run_id, 'g' as rubric_id, '1.0.0' as rubric_version")
        for output_id in ("a", "b"):
            scores = "select 'r' as run_id, ? as output_id, 0.5 as score, 0 as unscored_count, [] as failed_gates"
            connection.execute(f"insert into output_scores by name {scores}", [output_id])

    commit(lake, "two outputs", fill)
    with connect(lake, read_only=True) as connection:
        narrow_to_outputs(connection, "r", ["b"])
        found = [
            connection.execute(f"select output_id from {name}").fetchall()
            for name in ("output_scores", "output_feedback")
        ]
    assert found == [[("b",)], [("b",)]]


def test_narrowed_to_no_output_a_connection_tells_of_none(lake: Lake):
    with connect(lake, read_only=True) as connection:
        narrow_to_outputs(connection, "r", [])
        assert connection.execute("select * from output_feedback").fetchall() == []


def test_copies_of_small_tables_have_the_rows_of_the_lake_in_its_order(lake: Lake, monkeypatch):
    def fill(connection: Any, _version: int) -> None:
        for table, rows in (("ratings", 3), ("claims", 5)):
            connection.execute(f"insert into {table} by name select 'r' || i as output_id from range({rows}) as t (i)")
        connection.execute("delete from ratings where output_id = 'r1'")

    monkeypatch.setattr(schema, "SMALL_COUNT", 4)
    commit(lake, "rows", fill)
    with connect(lake, read_only=True, is_pinned=True) as connection:
        copy_small_tables(connection)
        copied = {
            name for (name,) in connection.execute("select table_name from duckdb_tables() where temporary").fetchall()
        }
        assert {"ratings", "opinions", "runs"} < copied
        assert "claims" not in copied  # more rows than a small table has
        for table in copied:
            assert connection.execute(f"from {table}").fetchall() == connection.execute(f"from lake.{table}").fetchall()
        assert connection.execute("select output_id from ratings order by rowid").fetchall() == [("r0",), ("r2",)]
        assert connection.execute("select column_name, column_type from (describe ratings)").fetchall() == (
            connection.execute("select column_name, column_type from (describe lake.ratings)").fetchall()
        )

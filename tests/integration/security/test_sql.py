"""`gradebook sql` against who may write the query or the lake; integration/tasks/lake/test_user_queries.py has more."""

import sqlite3
from contextlib import closing

import pytest

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.lake.user_queries import run_query

PLANTED = (
    "create view planted as select * from sqlite_scan('{other}', 'secrets')",
    "create view twice as select * from planted",
    "create view \"x AS select 1 --\" as select * from sqlite_scan('{other}', 'secrets')",
    "create view \"Odd\" (a) as select * from SQLITE_SCAN('{other}', 'secrets')",
    "create view fine as select run_id from runs",
    "create macro lower_all() as table select * from sqlite_scan('{other}', 'secrets')",
    "create macro range(n) as table select * from sqlite_scan('{other}', 'secrets')",
    "create macro secret_of() as (select secret from sqlite_scan('{other}', 'secrets'))",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake in which somebody put views and macros that read a database beside it."""
    folder = tmp_path_factory.mktemp("planted")
    with closing(sqlite3.connect(folder / "other.sqlite")) as other:
        other.execute("create table secrets as select 42 as secret")
        other.commit()
    found = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    prepare_lake(found)
    for statement in PLANTED:
        planted = statement.replace("{other}", str(folder / "other.sqlite"))
        commit(found, "planted", lambda connection, _, planted=planted: connection.execute(planted) and None)
    return found


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from planted", "the table function sqlite_scan"),
        ("from lake.main.PLANTED", "the table function sqlite_scan"),
        ("select (select max(secret) from planted)", "the table function sqlite_scan"),
        ("with a as materialized (from twice) from a", "the table function sqlite_scan"),
        ("summarize planted", "the table function sqlite_scan"),
        ("from planted at (version => 99)", "the table function sqlite_scan"),
        ("from odd", "the table function sqlite_scan"),
        ('from "x AS select 1 --"', "whose text can't be checked"),
        ("from lower_all()", "the table function lower_all"),
        ("from range(3)", "the function range of the lake itself"),
        ("select secret_of()", "the function secret_of of the lake itself"),
        ("select run_id from fine where secret_of() = 42", "the function secret_of of the lake itself"),
        ("from query_table('planted')", "the table function query_table"),
        ("from query('from planted')", "the table function query"),
    ],
)
def test_what_was_planted_in_the_lake_reaches_no_other_file(lake, query, words):
    with pytest.raises(QueryError, match="sql: found") as caught:
        run_query(lake, query)
    assert words in str(caught.value)


def test_a_view_over_the_lake_s_own_tables_is_read(lake):
    assert run_query(lake, "from fine").column_names == ["run_id"]
    assert run_query(lake, "from latest_runs").num_rows == 0


@pytest.mark.parametrize(
    "query",
    [
        "from duckdb_secrets()",
        "from duckdb_settings()",
        "from pg_settings",
        "from pg_catalog.PG_SETTINGS",
        "select current_setting('s3_secret_access_key')",
        "select Current_Setting('secret_directory')",
        "select getenv('HOME')",
        "from which_secret('s3://a', 's3')",
        "from read_csv('/etc/passwd')",
        "from read_json_auto('/etc/passwd')",
        "from parquet_scan('/etc/passwd')",
        "from '/etc/passwd'",
        'from "/etc/passwd"',
        "from glob('/etc/*')",
        "from 'https://127.0.0.1:9/x.parquet'",
        "from 's3://bucket/x.parquet'",
        "from runs where run_id in (select file from glob('/etc/*'))",
        "from json_execute_serialized_sql(json_serialize_sql('from read_text(''/etc/passwd'')'))",
    ],
)
def test_no_query_reads_files_addresses_settings_or_secrets(lake, query):
    with pytest.raises(QueryError, match="sql: "):
        run_query(lake, query)


@pytest.mark.parametrize(
    "statement",
    [
        "copy runs to '/tmp/gradebook-stolen.csv'",
        "export database '/tmp/gradebook-stolen'",
        "attach '/tmp/gradebook-stolen.db'",
        "load httpfs",
        "install httpfs",
        "set enable_external_access = true",
        "reset threads",
        "pragma enable_profiling",
        "use memory",
        "create secret (type s3)",
        "create macro m() as 1",
        "create temp table t as select 1",
        "prepare p as select 1",
        "execute p",
        "call ducklake_expire_snapshots('lake', older_than => now())",
        "from ducklake_cleanup_old_files('lake', cleanup_all => true)",
        "merge into runs using runs r on true when matched then delete",
        "explain analyze create table lake.t as select 1",
        "with a as (delete from runs returning *) from a",
        "vacuum",
        "checkpoint",
    ],
)
def test_no_statement_writes_loads_or_sets(lake, statement):
    with pytest.raises(QueryError, match="sql: "):
        run_query(lake, statement)


@pytest.mark.parametrize("query", ["select " + "+".join(["1"] * 990), "select " + "[" * 900 + "1" + "]" * 900])
def test_a_query_of_a_thousand_levels_is_refused_in_a_sentence(lake, query):
    with pytest.raises(QueryError, match="nested too deeply"):
        run_query(lake, query)


@pytest.mark.parametrize("name", ["query", "connection", "statement", "lake"])
def test_no_variable_of_the_program_is_a_table(lake, name):
    with pytest.raises(QueryError, match=f"Table with name {name} does not exist"):
        run_query(lake, f"from {name}")

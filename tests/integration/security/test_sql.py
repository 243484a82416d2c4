"""`gradebook sql` against who may write the query or the lake; integration/tasks/lake/test_user_queries.py has more."""

import sqlite3
import textwrap
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import LakeError, QueryError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.attaching import load_extensions
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.lake.schema import KNOWN_VIEWS, digest_of_view
from gradebook.tasks.lake.sql import query
from gradebook.tasks.lake.user_queries import REFUSED_FUNCTIONS, REFUSED_SYSTEM_VIEWS, TABLE_FUNCTIONS, run_query
from tests.support.law_over import law_over
from tests.support.nightly import nightly

ROOT = Path(__file__).parents[3]
KNOWN_NAMES = Path(__file__).with_name("duckdb_names.txt")
PLANTED = (
    "create view planted as select * from sqlite_scan('{other}', 'secrets')",
    "create view twice as select * from planted",
    "create view \"x AS select 1 --\" as select * from sqlite_scan('{other}', 'secrets')",
    "create view \"Odd\" (a) as select * from SQLITE_SCAN('{other}', 'secrets')",
    "create view stepping as select * from sqlite_scan('{other}', 'secrets')",
    "create or replace view stepping as select 1 as harmless",
    "create view dropped as select * from sqlite_scan('{other}', 'secrets')",
    "drop view dropped",
    "create view harmless as select * from stepping at (version => 6)",
    "create schema beside",
    "create view beside.hidden as select * from sqlite_scan('{other}', 'secrets')",
)
MACROS = (
    "create macro lower_all() as table select * from sqlite_scan('{other}', 'secrets')",
    "create macro range(n) as table select * from sqlite_scan('{other}', 'secrets')",
    "create macro max(x) as (select secret from sqlite_scan('{other}', 'secrets'))",
)
SHADOWS = (
    "drop table runs; create view runs as select content as run_id from read_text('/etc/hostname')",
    "create or replace view latest_runs as select * from sqlite_scan('{other}', 'secrets')",
    "create or replace view mean_lines as select 1",
    "create schema beside; create view beside.latest_runs as select 1",
)


def plant(folder: Path, *statements: str) -> Lake:
    """A lake in which somebody ran these statements, and a database with a secret beside it."""
    with closing(sqlite3.connect(folder / "other.sqlite")) as other:
        other.execute("create table secrets as select 42 as secret")
        other.commit()
    found = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    prepare_lake(found)
    with connect(found, is_unshared=True) as connection:
        for statement in statements:
            connection.execute(statement.replace("{other}", str(folder / "other.sqlite")))
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake in which somebody put views that read a database beside it."""
    return plant(tmp_path_factory.mktemp("planted"), *PLANTED)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from planted", "the view 'planted', which gradebook did not make"),
        ("from lake.main.PLANTED", "the view 'planted'"),
        ("select (select max(secret) from planted)", "the view 'planted'"),
        ("with a as materialized (from twice) from a", "the view 'twice'"),
        *nightly(
            [
                ("summarize planted", "the view 'planted'"),
                ("from planted at (version => 99)", "the view 'planted'"),
                ("from odd", "the view 'odd'"),
                ('from "x AS select 1 --"', "the view 'x as select 1 --'"),
                ("from harmless", "the view 'harmless'"),
                ("from stepping at (version => 6)", "the view 'stepping'"),
                ("from dropped at (version => 8)", "the view 'dropped' at another version"),
                ("from worst_outputs at (version => 1)", "the view 'worst_outputs' at another version"),
                ("from worst_outputs at (timestamp => now())", "the view 'worst_outputs' at another version"),
                ("from beside.hidden", "the view 'hidden'"),
                ("from query_table('planted')", "the table function query_table"),
                ("from query('from planted')", "the table function query"),
            ]
        ),
    ],
)
def test_what_was_planted_in_the_lake_reaches_no_other_file(lake, query, words):
    with pytest.raises(QueryError, match="sql: found") as caught:
        run_query(lake, query)
    assert words in str(caught.value)


def test_the_lake_s_own_tables_and_views_are_read(lake):
    assert run_query(lake, "from runs at (version => 1)").num_rows == 0
    assert run_query(lake, "from worst_outputs").num_rows == 0
    assert run_query(replace(lake, at=1), "from worst_outputs").num_rows == 0


@pytest.mark.parametrize("statement", [SHADOWS[0], *nightly(SHADOWS[1:])])
def test_no_command_reads_a_view_in_place_of_gradebook_s_own(tmp_path, statement):
    planted = plant(tmp_path, statement)
    for is_reading in (True, False):
        refused = pytest.raises(LakeError, match="a view (runs|latest_runs|mean_lines) that gradebook did not make")
        with refused, connect(planted, read_only=is_reading):
            pytest.fail("it was opened")


def test_a_version_with_a_foreign_view_is_refused_and_those_before_it_are_read(tmp_path):
    planted = plant(tmp_path, *SHADOWS[1:2])
    with connect(planted, read_only=True, at=1) as connection:
        assert connection.execute("from latest_runs").fetchall() == []
    with pytest.raises(LakeError, match="a view latest_runs"), connect(planted, read_only=True, at=2):
        pytest.fail("it was opened")


@pytest.mark.parametrize("statement", MACROS)
def test_no_command_opens_a_lake_with_functions_of_its_own(tmp_path, statement):
    planted = plant(tmp_path, statement)
    with pytest.raises(LakeError, match="a function (lower_all|range|max) in the catalog"):
        run_query(planted, "select 1")


@pytest.mark.parametrize("path", ["/etc/passwd", "../../other.parquet", "main/../../x.parquet"])
def test_no_command_opens_a_lake_with_files_elsewhere(tmp_path, path):
    planted = plant(tmp_path)
    with closing(sqlite3.connect(planted.address)) as catalog:
        catalog.execute(
            "insert into ducklake_data_file (data_file_id, table_id, begin_snapshot, path, path_is_relative) "
            "values (999, 1, 1, ?, ?)",
            [path, not path.startswith("/")],
        )
        catalog.commit()
    with pytest.raises(LakeError, match="outside the data folder"), connect(planted, read_only=True):
        pytest.fail("it was opened")


def test_each_view_of_this_gradebook_is_known_by_its_last_digest(lake):
    with connect(lake, read_only=True, at=1) as connection:
        made = connection.execute(query("lake/visible_views"), {"at": 1}).fetchall()
    assert {name: digest_of_view(text) for name, text, _ in made} == {
        name: known[-1] for name, known in KNOWN_VIEWS.items()
    }


def test_nothing_is_downloaded(lake):
    settings = "select current_setting('autoinstall_known_extensions'), current_setting('autoload_known_extensions')"
    with connect(lake, read_only=True) as connection:
        assert connection.execute(settings).fetchall() == [(False, False)]
    sources = [path for room in ("tasks", "flows") for path in (ROOT / room).rglob("*.py")]
    opening = [path.name for path in sources if "duckdb.connect(" in path.read_text(encoding="utf-8")]
    assert opening == ["sql.py"]  # every other module opens its databases through it


# -------- functions
def names_of_duckdb() -> tuple[set[str], set[str]]:
    """Functions but table functions, and views, with the extensions that a lake may load."""
    with duckdb.connect() as connection:
        load_extensions(connection, "ducklake", "sqlite_scanner", "postgres_scanner", "httpfs")
        functions = connection.execute(
            "select function_name from duckdb_functions() where function_type in ('scalar', 'aggregate', 'macro')"
        ).fetchall()
        views = connection.execute("select view_name from duckdb_views() where internal").fetchall()
        return {name for (name,) in functions}, {name for (name,) in views}


def test_no_name_of_duckdb_is_new_since_the_dangerous_ones_were_listed():
    """A name on the left alone is new: list it if it is dangerous, then write the file anew: `python THIS_FILE`."""
    assert names_of_duckdb() == tuple(set(names.split()) for names in KNOWN_NAMES.read_text("utf-8").split("\n\n"))


def test_each_refused_name_is_one_of_duckdb():
    functions, views = names_of_duckdb()
    assert REFUSED_FUNCTIONS - functions == {"getenv"}  # DuckDB's shell alone has it
    assert views >= REFUSED_SYSTEM_VIEWS
    assert not TABLE_FUNCTIONS & REFUSED_FUNCTIONS


@law_over(
    "name", ["read_text", "sqlite_scan", "postgres_query", "pragma_database_list", "duckdb_settings", "a_new_one"]
)
def test_a_table_function_beyond_the_listed_ones_is_refused(lake, name):
    with pytest.raises(QueryError, match=f"sql: found the table function {name}, expected the lake's tables"):
        run_query(lake, f"select * from runs where run_id in (select a from {name}('a'))")


@law_over(
    "query",
    [
        "select json_serialize_plan('select current_setting(''http_proxy'')', optimize := true)",
        "select JSON_SERIALIZE_PLAN('from runs')",
        "select main.json_serialize_plan('from runs')",
        "select * from runs where json_serialize_plan('from runs') is null",
        "select list_transform(['from runs'], lambda q: json_serialize_plan(q))",
        "select write_log('a', scope := 'database')",
        "select getvariable('a')",
        "select sleep_ms(1)",
        "select count(*) from runs order by nextval('a')",
    ],
)
def test_no_function_beyond_computing_is_called(lake, query):
    with pytest.raises(QueryError, match="sql: found the function .*, expected one of those that only compute"):
        run_query(lake, query)


@law_over(
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


@law_over(
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


if __name__ == "__main__":
    lines = [textwrap.fill(" ".join(sorted(names)), 120, break_on_hyphens=False) for names in names_of_duckdb()]
    KNOWN_NAMES.write_text("\n\n".join(lines) + "\n", "utf-8")

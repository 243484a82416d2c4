"""`gradebook sql` reads the lake's tables, and can neither write nor read anything beside them."""

import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.lake.user_queries import _half_memory, run_query


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of one run, and beside it another SQLite file with a secret."""
    folder = tmp_path_factory.mktemp("query")
    with closing(sqlite3.connect(folder / "other.sqlite")) as other:
        other.execute("create table secrets as select 42 as secret")
        other.commit()
    found = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    prepare_lake(found)
    commit(found, "a run", lambda connection, _: connection.execute("insert into runs (run_id) values ('a')") and None)
    return found


@pytest.mark.parametrize(
    "query",
    [
        "from sqlite_scan('{folder}/other.sqlite', 'secrets')",
        "from SQLITE_SCAN('{folder}/other.sqlite', 'secrets')",
        "from system.main.sqlite_scan('{folder}/other.sqlite', 'secrets')",
        "describe from sqlite_scan('{folder}/other.sqlite', 'secrets')",
        "explain analyze from sqlite_scan('{folder}/other.sqlite', 'secrets')",
        "-- explain \nexplain analyze from sqlite_scan('{folder}/other.sqlite', 'secrets') union all\nselect 1",
        "with a as (from sqlite_scan('{folder}/other.sqlite', 'secrets')) from a",
        "select (select secret from sqlite_scan('{folder}/other.sqlite', 'secrets'))",
        "from query('from sqlite_scan(''{folder}/other.sqlite'', ''secrets'')')",
        "from sqlite_attach('{folder}/other.sqlite')",
        "from sqlite_query('__ducklake_metadata_lake', 'select * from ducklake_snapshot')",
        "from __ducklake_metadata_lake.ducklake_snapshot",
        "from '{folder}/other.sqlite'",
        "from read_blob('{folder}/lake/data/../../other.sqlite')",
        "from read_text('/proc/self/environ')",
        "from duckdb_databases",
    ],
)
def test_reading_reaches_nothing_beside_the_tables(lake, query):
    folder = lake.root.parent
    assert (folder / "other.sqlite").exists()
    with pytest.raises(QueryError, match="sql: "):
        run_query(lake, query.replace("{folder}", str(folder)))


@pytest.mark.parametrize(
    "before", ["", "explain ", "explain analyze ", "EXPLAIN  ANALYZE\n", "/* explain */ explain analyze "]
)
def test_no_file_is_written_into_the_tables_folder(lake, before):
    written = Path(lake.data_path) / "forged.parquet"
    with pytest.raises(QueryError):
        run_query(lake, f"{before}copy (select 1 as a) to '{written}'")
    assert not written.exists()


@pytest.mark.parametrize(
    "query",
    [
        "explain from runs",
        "explain analyze select count(*) from runs",
        "summarize runs",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) from n",
        "select run_id, row_number() over (order by run_id) from runs qualify true",
        "from (select run_id, status from runs) pivot (count(*) for status in ('published'))",
        "from range(3)",
        "select * from ducklake_snapshots('lake')",
        "from duckdb_tables()",
        "from information_schema.tables",
        "select unnest([1, 2])",
    ],
)
def test_what_only_reads_is_answered(lake, query):
    assert run_query(lake, query).num_rows > 0


# -------- what a query takes
ENDLESS = "select count(*) from range(1000000) as a, range(1000000) as b where a.range + b.range = 7"
DISTINCT = "select count(*) as n from (select distinct md5(range::varchar) from range(1500000))"


@pytest.fixture
def heard_ctrl_c() -> Iterator[None]:
    """Ctrl-C as a person's shell has it: a shell's background jobs are started deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_ctrl_c")
def test_a_query_that_would_run_for_ever_is_ended_by_ctrl_c(lake):
    interrupt = threading.Timer(1.0, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        run_query(lake, ENDLESS)


def test_a_query_takes_half_of_the_memory_at_most():
    with duckdb.connect(config={"memory_limit": "3GiB"}) as connection:
        assert _half_memory(connection) == "1.5 GiB"


def test_what_does_not_fit_into_memory_goes_to_disk_and_is_removed(lake, monkeypatch, tmp_path):
    monkeypatch.setattr("gradebook.tasks.lake.user_queries._half_memory", lambda _connection: "60 MiB")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_query(lake, DISTINCT).to_pylist() == [{"n": 1_500_000}]
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_needs_more_at_once_is_refused_in_a_sentence(lake, monkeypatch):
    monkeypatch.setattr("gradebook.tasks.lake.user_queries._half_memory", lambda _connection: "60 MiB")
    with pytest.raises(
        QueryError, match="sql: found a query that needs more memory at once than half of what there is"
    ):
        run_query(lake, "select list(range) from range(20000000)")

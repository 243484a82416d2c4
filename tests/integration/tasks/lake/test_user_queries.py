"""`gradebook sql` reads the lake's tables, and can neither write nor read anything beside them."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake import user_queries
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.user_queries import _half_memory, run_bounded_query, run_query
from gradebook.tasks.system import processes
from tests.support.law_over import law_over
from tests.support.nightly import nightly


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


@law_over(
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


@law_over(
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


# Single functions that listen to nothing while they compute, and what DuckDB's own limit does not count.
DEAF = (
    "select regexp_matches(repeat('x', 30000000), '(.{1,31}){1,31}y')",
    "select levenshtein(repeat('ab', 200000), repeat('ba', 200000))",
    "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n",
    "select sum(a.range) from range(10000000) as a order by (select max(range) from range(100000000000))",
    ENDLESS,
)
GREEDY = (
    "select lpad('x', 2000000000, 'y')",
    "select repeat('x', 300000000) from range(20)",
    "select list(range) from range(2000000000)",
)


@pytest.mark.usefixtures("heard_ctrl_c")
@pytest.mark.parametrize("query", DEAF)
def test_ctrl_c_ends_each_query_and_its_process(lake, monkeypatch, query):
    asked = []
    monkeypatch.setattr(processes.os, "fork", lambda fork=os.fork: asked.append(fork()) or asked[-1])
    read = processes.select.select

    def press(*arguments):
        signal.raise_signal(signal.SIGINT)
        return read(*arguments)

    monkeypatch.setattr(processes.select, "select", press)
    with pytest.raises(KeyboardInterrupt):
        run_bounded_query(lake, query, 600)
    with pytest.raises(ChildProcessError):
        os.waitpid(asked[0], os.WNOHANG)


@pytest.mark.parametrize("query", [*DEAF[:2], *nightly(DEAF[2:])])
def test_a_query_ends_with_its_time(lake, query):
    with pytest.raises(QueryError, match=r"found a query that takes longer than 0.5 s, expected a shorter one"):
        run_bounded_query(lake, query, 0.5)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count no such limit")
@pytest.mark.parametrize("query", [GREEDY[0], *nightly(GREEDY[1:])])
def test_a_value_that_needs_more_memory_is_refused_in_a_sentence(lake, monkeypatch, query):
    monkeypatch.setattr("gradebook.tasks.lake.user_queries._half_memory", lambda _connection: "60 MiB")
    with pytest.raises(QueryError, match="needs more memory at once than half of what there is"):
        run_bounded_query(lake, query, 600)


def test_rows_and_faults_come_back_from_the_other_process(lake, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    asked = "select range as n, [range] as list from range(25000)"
    assert run_bounded_query(lake, asked, 600).equals(run_query(lake, asked))
    with pytest.raises(QueryError, match="Table with name nothing does not exist"):
        run_bounded_query(lake, "from nothing", 600)
    with pytest.raises(NoLakeThere):
        run_bounded_query(find_lake(f"sqlite:{tmp_path}/none.sqlite"), "select 1", 600)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_child_of_a_killed_process_ends_with_it(tmp_path):
    code = (
        "import os, signal, threading, time; from gradebook.tasks.system.processes import call_in_child\n"
        f"def call(): open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)\n"
        "threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGKILL]).start(); call_in_child(call, 600)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    child = int((tmp_path / "pid").read_text(encoding="ascii"))
    while is_running(child):  # until it has read that its parent is gone
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether a process runs; one that ended and is not yet reaped does not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.usefixtures("heard_ctrl_c")
def test_a_query_that_would_run_for_ever_is_ended_by_ctrl_c(lake):
    interrupt = threading.Timer(1.0, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        run_query(lake, ENDLESS)


def test_a_query_takes_half_of_the_memory_at_most():
    with duckdb.connect(config={"memory_limit": "3GiB"}) as connection:
        assert _half_memory(connection) == "1.5 GiB"


def test_rows_without_end_do_not_fill_the_disk(lake, monkeypatch, tmp_path):
    monkeypatch.setattr(user_queries, "DISK_SHARE", shutil.disk_usage(tmp_path).free // 2**20)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(QueryError, match="found rows that take more than .* of the free disk"):
        run_bounded_query(lake, "select range, repeat('x', 100) from range(1000000000000)", 60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
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

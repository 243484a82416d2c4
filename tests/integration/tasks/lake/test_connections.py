"""The lake: versions that hold, commits that are whole, reading that only reads."""

import multiprocessing
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import duckdb
import psutil
import pytest

from gradebook.rubrics.model.errors import LakeError, LakeUnavailable, QueryError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.attaching import attach_lines
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.rows import insert_rows
from gradebook.tasks.lake.user_queries import run_query
from tests.support.law_over import law_over
from tests.support.other_writer import written_by_another

WRITERS, COMMITS = 3, 5


@pytest.fixture(scope="module")
def read_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake for tests that write nothing."""
    found = find_lake(f"sqlite:{tmp_path_factory.mktemp('read')}/lake/catalog.sqlite")
    prepare_lake(found)
    return found


def add_run(lake: Lake, run_id: str) -> int:
    def body(connection, version):
        connection.execute("insert into runs (run_id, version) values (?, ?)", [run_id, version])

    return commit(lake, run_id, body)


def add_runs(address: str, writer: int) -> None:
    for number in range(COMMITS):
        add_run(find_lake(address), f"{writer}-{number}")


def rows(lake: Lake, query: str, at: int | None = None) -> list[tuple]:
    with connect(lake, read_only=True, at=at) as connection:
        return connection.execute(query).fetchall()


def test_plain_duckdb_opens_a_lake_by_the_printed_statements_to_read(read_lake):
    with duckdb.connect() as connection:
        connection.execute(attach_lines(read_lake))
        assert connection.execute("select count(*) from latest_run_scores").fetchall() == [(0,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("insert into runs (run_id) values ('a')")


def test_a_commit_knows_its_own_version(lake):
    version = add_run(lake, "a")
    assert rows(lake, "select run_id, version from runs", at=version) == [("a", version)]
    assert rows(lake, "from ducklake_current_snapshot('lake')") == [(version,)]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_catalog_that_others_hold_for_minutes_is_no_mistake_of_the_command(lake, monkeypatch):
    for module in ("attaching", "commits"):
        monkeypatch.setattr(f"gradebook.tasks.lake.{module}.COMMIT_DEADLINE_S", 0.0)
    with written_by_another(lake), pytest.raises(LakeUnavailable, match="the catalog stayed locked"):
        add_run(lake, "a")
    with written_by_another(lake, "exclusive"), pytest.raises(LakeUnavailable, match="the catalog stayed locked"):
        run_query(lake, "from runs")
    assert rows(lake, "from runs") == []


@pytest.mark.nightly
def test_a_pinned_connection_reads_one_version_whatever_is_committed_meanwhile(lake):
    add_run(lake, "a")
    with connect(lake, read_only=True, is_pinned=True) as connection:
        with multiprocessing.get_context("spawn").Pool(1) as others:
            others.apply(add_run, (lake, "b"))
        assert connection.execute("select run_id from runs").fetchall() == [("a",)]
    assert rows(lake, "select count(*) from runs") == [(2,)]


def ask_twice(lake: Lake) -> None:
    """Ask, and again while somebody holds the catalog."""
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select count(*) from runs").fetchall() == [(0,)]
        with written_by_another(lake, "exclusive"):
            connection.execute("select count(*) from runs").fetchall()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_reader_whose_statement_meets_a_commit_that_takes_long_is_told(lake):
    with pytest.raises(LakeUnavailable, match="the catalog stayed locked for 5 s"):
        ask_twice(lake)


def refuse_commits(lake: Lake, count: int) -> None:
    """Commit as often beside somebody who holds the catalog."""
    for _ in range(count):
        with connect(lake) as connection:
            connection.execute("begin; insert into output_scores (output_id) select range::varchar from range(50)")
            with written_by_another(lake), pytest.raises(duckdb.Error, match="locked"):
                connection.execute("commit")


@pytest.mark.nightly
@pytest.mark.slow
def test_commits_that_fail_leave_no_memory_behind(lake):
    refuse_commits(lake, 2)
    before = psutil.Process().memory_info().rss
    refuse_commits(lake, 8)
    assert (psutil.Process().memory_info().rss - before) / 2**20 < 16  # 4 MB each, where they do


@pytest.mark.slow
def test_writers_at_once_lose_nothing_and_each_version_is_its_own(lake):
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=add_runs, args=(f"sqlite:{lake.address}", number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    (found,) = rows(lake, "select count(*), count(distinct version) from runs")
    assert found == (WRITERS * COMMITS, WRITERS * COMMITS)


def test_threads_of_one_process_take_turns(lake):
    writers = [threading.Thread(target=add_runs, args=(f"sqlite:{lake.address}", number)) for number in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        rows(lake, "select count(*) from runs")
    assert rows(lake, "select count(*) from runs") == [(2 * COMMITS,)]


def test_a_body_that_raises_leaves_nothing(lake):
    def body(connection, _version):
        connection.execute("insert into runs (run_id) values ('half')")
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        commit(lake, "half", body)
    assert rows(lake, "from runs") == []


def test_a_moved_lake_reads_as_before(lake, tmp_path):
    add_run(lake, "a")
    (tmp_path / "lake").rename(tmp_path / "moved")
    assert rows(find_lake(f"sqlite:{tmp_path}/moved/catalog.sqlite"), "select run_id from runs") == [("a",)]


@pytest.mark.parametrize(
    ("uri", "example"),
    [
        ("lake", ", such as sqlite:lake/catalog.sqlite"),
        ("file.sqlite", ", such as sqlite:file.sqlite"),
        ("mysql:x", ""),
        ("sqlite:", ""),
    ],
)
def test_an_unknown_lake_uri_is_refused_with_the_one_that_may_be_meant(uri: str, example: str):
    with pytest.raises(LakeError, match=f"expected sqlite:FILE or postgres:CONNECTION{example}$"):
        find_lake(uri)


def test_a_lake_that_can_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LakeError, match="file/lake"):
        prepare_lake(find_lake(f"sqlite:{tmp_path}/file/lake/catalog.sqlite"))


def test_a_catalog_that_is_no_database_is_named(tmp_path):
    (tmp_path / "catalog.sqlite").write_text("not a database, and long enough to be looked at as one")
    with pytest.raises(LakeError, match="catalog.sqlite: the lake can't be opened"):
        prepare_lake(find_lake(f"sqlite:{tmp_path}/catalog.sqlite"))


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table accounts (name text)")
        other.commit()
    with pytest.raises(LakeError, match="found a database of something else"):
        prepare_lake(find_lake(f"sqlite:{path}"))
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("select name from sqlite_master").fetchall() == [("accounts",)]


def test_reading_a_lake_that_is_not_there_makes_none(tmp_path):
    with (
        pytest.raises(LakeError, match="found no lake"),
        connect(find_lake(f"sqlite:{tmp_path}/l/c.sqlite"), read_only=True),
    ):
        pass
    assert not (tmp_path / "l").exists()


@law_over(
    "query",
    [
        "insert into runs (run_id) values ('x')",
        "delete from runs",
        "drop table runs",
        "create table x as select 1",
        "attach ':memory:' as other",
        "copy (select 1) to 'x.csv'",
        "copy runs to 'x.parquet'",
        "set threads = 1",
        "install httpfs",
        "load httpfs",
        "pragma memory_limit='1GB'",
        "export database 'x'",
        "call ducklake_expire_snapshots('lake', older_than => now())",
        "select 1; select 2",
        "",
    ],
)
def test_sql_that_does_more_than_read_is_refused(read_lake, query):
    with pytest.raises(QueryError):
        run_query(read_lake, query)


@pytest.mark.parametrize(
    "query", ["from read_text('/etc/passwd')", "from read_csv('/etc/passwd')", "from glob('/etc/*')"]
)
def test_sql_reads_no_other_files(read_lake, query):
    with pytest.raises(QueryError):
        run_query(read_lake, query)


@pytest.mark.parametrize(
    "query", ["from runs", "show tables", "describe runs", "explain from runs", "with a as (select 1 as b) from a"]
)
def test_sql_that_reads_is_answered(read_lake, query):
    assert run_query(read_lake, query).num_columns > 0


def test_a_version_that_is_not_there_is_named(lake):
    with pytest.raises(LakeError, match="--at: found 999"):
        run_query(replace(lake, at=999), "from runs")


@pytest.mark.parametrize("folder", ["run_id=a", "model=small/inner"])
def test_a_folder_that_would_be_read_as_a_column_is_refused(tmp_path, folder):
    with pytest.raises(LakeError, match="found a folder named '[a-z_]+=[a-z]+' on the way"):
        find_lake(f"sqlite:{tmp_path}/{folder}/catalog.sqlite")


@pytest.mark.nightly
def test_a_null_character_in_a_list_does_not_lock_the_catalog(lake: Lake):
    def body(connection, version):
        insert_rows(connection, "runs", [{"run_id": "r1", "version": version, "notes": ["a\0b", None]}])

    commit(lake, "notes", body)
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select notes from runs").fetchall() == [(["ab", None],)]

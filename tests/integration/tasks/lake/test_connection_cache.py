"""What the blocks of one process share of a lake that stays attached between them, and what they do not."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake import connections as lake_connections
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import (
    Attached,
    cached_connections,
    commit,
    connect,
    open_for_writing,
    prepare_lake,
)
from gradebook.tasks.lake.user_queries import run_query
from tests.support.other_writer import written_by_another


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    found = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(found)
    cached_connections.close()
    yield found
    cached_connections.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Attached]:
    """How lakes were attached, in order."""
    found: list[Attached] = []
    attach = lake_connections._open
    monkeypatch.setattr(lake_connections, "_open", lambda attached: found.append(attached) or attach(attached))
    return found


def add_run(lake: Lake, run_id: str) -> int:
    return commit(
        lake, run_id, lambda connection, _: connection.execute("insert into runs (run_id) values (?)", [run_id])
    )


def run_ids(lake: Lake, **how: bool) -> list[str]:
    with connect(lake, read_only=True, **how) as connection:
        return [name for (name,) in connection.execute("select run_id from runs order by run_id").fetchall()]


def add_in_a_process(lake: Lake, run_id: str) -> None:
    process = multiprocessing.get_context("spawn").Process(target=add_run, args=(lake, run_id))
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("is_opened_for_writing", [False, True])
def test_a_process_attaches_a_lake_at_most_once_to_read_and_once_to_write(lake, opened, is_opened_for_writing):
    if is_opened_for_writing:
        open_for_writing(lake)
    assert run_ids(lake) == []
    for run_id in "abc":
        add_run(lake, run_id)
        assert run_ids(lake)[-1] == run_id
    assert [attached.read_only for attached in opened] == ([False] if is_opened_for_writing else [True, False])


def test_a_lake_that_is_not_there_is_not_made_by_opening_it_for_writing(tmp_path):
    open_for_writing(find_lake(f"sqlite:{tmp_path}/none/lake.sqlite"))
    assert not (tmp_path / "none").exists()


def test_one_version_is_attached_once(lake, opened):
    version = add_run(lake, "a")
    for _ in range(3):
        assert run_ids(lake, is_pinned=True) == ["a"]
    assert [attached.at for attached in opened] == [None, version]
    add_run(lake, "b")
    assert run_ids(lake, is_pinned=True) == ["a", "b"]
    assert len(cached_connections.connections) == 2


@pytest.mark.nightly
def test_what_another_process_commits_is_read(lake, opened):
    assert run_ids(lake) == []
    add_in_a_process(lake, "a")
    assert run_ids(lake) == ["a"]
    assert len(opened) == 2


@pytest.mark.nightly
def test_a_lake_that_takes_the_place_of_another_is_read_anew(lake, tmp_path):
    add_run(lake, "a")
    assert run_ids(lake) == ["a"]
    shutil.rmtree(tmp_path / "lake")
    prepare_lake(lake)
    assert run_ids(lake) == []
    assert add_run(lake, "b") == 2
    assert run_ids(lake) == ["b"]


def test_a_lake_that_is_restored_from_a_backup_is_read_anew(lake, tmp_path):
    add_run(lake, "a")
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    add_run(lake, "b")
    commit(lake, "widen", lambda connection, _: connection.execute("alter table runs add column later varchar"))
    assert run_ids(lake) == ["a", "b"]
    shutil.copytree(tmp_path / "backup", tmp_path / "lake", dirs_exist_ok=True)
    commit(lake, "widen", lambda connection, _: connection.execute("alter table runs add column other integer"))
    add_run(lake, "c")
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select run_id, other from runs order by all").fetchall() == [
            ("a", None),
            ("c", None),
        ]


@pytest.mark.nightly
def test_a_lake_that_is_replaced_while_a_block_reads_it_is_read_anew(lake, opened, tmp_path):
    add_run(lake, "a")
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    add_run(lake, "b")
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select count(*) from runs").fetchall() == [(2,)]
        shutil.copytree(tmp_path / "backup", tmp_path / "lake", dirs_exist_ok=True)
    assert (len(opened), run_ids(lake)) == (1, ["a"])
    assert len(opened) == 2


@pytest.mark.nightly
def test_two_lakes_in_turn_are_not_mixed_up(lake, tmp_path):
    other = find_lake(f"sqlite:{tmp_path}/other/catalog.sqlite")
    prepare_lake(other)
    add_run(lake, "a")
    add_run(other, "b")
    assert [run_ids(each) for each in (lake, other, lake)] == [["a"], ["b"], ["a"]]
    assert (cached_connections.lake, len(cached_connections.connections)) == (lake, 1)


def test_temporary_tables_and_registered_ones_end_with_their_block(lake):
    with connect(lake, read_only=True) as connection:
        connection.execute("create temp table runs as select 'mine' as run_id")
        connection.register("shown", connection.execute("select 1 as x").to_arrow_table())
        assert connection.execute("select run_id from runs").fetchall() == [("mine",)]
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select run_id from runs").fetchall() == []
        with pytest.raises(duckdb.CatalogException):
            connection.execute("from shown")


def test_a_transaction_that_a_block_leaves_open_ends_with_it(lake):
    with connect(lake) as connection:
        connection.execute("begin; insert into runs (run_id) values ('a')")
    assert run_ids(lake) == []
    with connect(lake) as connection:
        connection.execute("begin; commit")


def test_a_connection_whose_block_failed_is_not_used_again(lake, opened):
    with pytest.raises(ValueError, match="stop"), connect(lake):
        raise ValueError("stop")
    with connect(lake):
        pass
    assert len(opened) == 2


def test_what_sql_locks_nobody_else_has(lake):
    for _ in range(2):
        assert run_query(lake, "select count(*) as n from runs").to_pylist() == [{"n": 0}]
        assert add_run(lake, "a") > 0
        commit(lake, "none", lambda connection, _: connection.execute("delete from runs"))


def test_a_block_within_a_block_has_a_connection_of_its_own(lake):
    with connect(lake, read_only=True) as outer:
        outer.execute("create temp table mine as select 1 as x")
        with connect(lake, read_only=True) as inner, pytest.raises(duckdb.CatalogException):
            inner.execute("from mine")
        assert outer.execute("from mine").fetchall() == [(1,)]
    assert len(cached_connections.connections) == 1


@pytest.mark.nightly
def test_a_pinned_lake_of_an_earlier_gradebook_is_named_as_such(lake):
    commit(lake, "earlier", lambda connection, _: connection.execute("drop view score_history"))
    message = "found a lake of an earlier gradebook, without score_history"
    with pytest.raises(LakeError, match=message), connect(lake, read_only=True, is_pinned=True) as connection:
        connection.execute("from score_history")


def test_a_large_lake_is_not_kept(lake, monkeypatch):
    monkeypatch.setattr(lake_connections, "ONE_THREAD_BYTES", -1)
    assert run_ids(lake) == []
    assert cached_connections.connections == {}


def test_a_forked_process_leaves_them_to_its_parent(lake):
    add_run(lake, "a")
    assert run_ids(lake) == ["a"]
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(write, str((len(cached_connections.connections), run_ids(lake))).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"(0, ['a'])"
    os.waitpid(child, 0)
    assert run_ids(lake) == ["a"]


def test_a_kept_connection_holds_no_lock(lake):
    add_run(lake, "a")
    assert run_ids(lake, is_pinned=True) == ["a"]
    with written_by_another(lake, "exclusive"):
        pass  # it got the lock
    assert run_ids(lake) == ["a"]


def test_a_catalog_that_is_gone_is_named(lake, tmp_path):
    assert run_ids(lake) == []
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(LakeError, match="found no lake there"):
        run_ids(lake)

"""What is on disk before something relies on it."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.tasks.judging.budget import Budget
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.system.files import MOST_UNSYNCED_COUNT, GroupCommit

IS_SYNCED = Callable[[Path], bool]


@pytest.fixture
def is_synced(monkeypatch: pytest.MonkeyPatch) -> IS_SYNCED:
    """Whether a folder, or a file at its present size, was brought to disk."""
    seen: set[tuple[int, int]] = set()
    sync = os.fsync

    def fsync(file: int) -> None:
        sync(file)
        seen.add(mark(os.fstat(file)))

    def mark(state: os.stat_result) -> tuple[int, int]:
        return state.st_ino, 0 if stat.S_ISDIR(state.st_mode) else state.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    return lambda path: mark(path.stat()) in seen


def add_table(lake: Lake, name: str = "t", count: int = 20_000) -> None:
    def add(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        connection.execute(f"create table if not exists {name} (a integer)")
        connection.execute(f"insert into {name} select * from range({count})")

    commit(lake, "add", add)


def test_the_files_of_a_transaction_are_on_disk_with_their_folders(lake: Lake, is_synced: IS_SYNCED):
    add_table(lake)
    (file,) = Path(lake.data_path).rglob("*.parquet")
    assert all(is_synced(path) for path in (file, *list(file.parents)[:4]))  # t, main, data and the lake's folder


def test_merged_files_are_on_disk(lake: Lake, is_synced: IS_SYNCED):
    for _ in range(12):
        add_table(lake)
    before = set(Path(lake.data_path).rglob("*.parquet"))
    compact_lake(lake, datetime.now(UTC) - timedelta(days=2))
    (merged,) = set(Path(lake.data_path).rglob("*.parquet")) - before
    assert is_synced(merged)


def test_a_journal_is_on_disk_when_it_is_closed_and_its_name_before(tmp_path: Path, is_synced: IS_SYNCED):
    with Journal(tmp_path, "run") as journal:
        assert is_synced(tmp_path)
        journal.append({"a": 1})
    assert is_synced(journal.path)


def test_a_record_of_a_budget_is_on_disk_when_it_is_closed(tmp_path: Path, is_synced: IS_SYNCED):
    budget = Budget(1.0, tmp_path / "budget.jsonl")
    asyncio.run(budget.reserve(0.5))
    budget.close()
    assert is_synced(tmp_path / "budget.jsonl")


@pytest.mark.parametrize("count", [1, MOST_UNSYNCED_COUNT, 3 * MOST_UNSYNCED_COUNT])
def test_appends_are_brought_to_disk_while_the_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
):
    synced = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: synced.set())
    with (tmp_path / "file").open("wb") as file:
        disk = GroupCommit(file.fileno())
        for _ in range(count):
            disk.note()
        assert synced.wait(10)
        disk.close()


def test_many_appends_share_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    with (tmp_path / "file").open("wb") as file:
        disk = GroupCommit(file.fileno())
        for _ in range(MOST_UNSYNCED_COUNT - 1):
            disk.note()
        disk.close()
    assert len(calls) <= 2


def test_a_disk_that_fails_to_sync_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with (tmp_path / "file").open("wb") as file:
        monkeypatch.setattr(os, "fsync", fail)
        disk = GroupCommit(file.fileno())
        disk.note()
        disk.close()
    assert disk.fault == "No space left on device"


@pytest.mark.parametrize(
    "text",
    [
        "IO Error: Could not write file: No space left on device",
        "TransactionContext Error: Failed to commit: Failed to commit DuckLake transaction: database or disk is full",
        'Failed to commit: Failed to execute query "ROLLBACK": cannot rollback - no transaction is active',
    ],
)
def test_a_full_disk_ends_a_transaction_at_once_with_a_plain_sentence(lake: Lake, text: str):
    tries: list[int] = []

    def fill(_connection: duckdb.DuckDBPyConnection, version: int) -> None:
        tries.append(version)
        raise duckdb.TransactionException(text)

    with pytest.raises(UnfinishedError, match="the disk is full: .*; make room, and the same command resumes"):
        commit(lake, "fill", fill)
    assert len(tries) == 1


def test_a_truncated_file_of_a_table_is_named_with_what_mends_it(lake: Lake):
    add_table(lake)
    (file,) = Path(lake.data_path).rglob("*.parquet")
    content = file.read_bytes()
    for harmed in (content[:400], content[:3], b""):
        file.write_bytes(harmed)
        with (
            pytest.raises(LakeError, match=rf"{file}: can't be read: .*restore the file"),
            connect(lake, read_only=True, is_unshared=True) as connection,
        ):
            connection.execute("select sum(a) from t").fetchall()
    file.unlink()
    with (
        pytest.raises(LakeError, match=rf"{file}: can't be read: .*restore the file"),
        connect(lake, read_only=True, is_unshared=True) as connection,
    ):
        connection.execute("select sum(a) from t").fetchall()

"""What becomes of leases whose owners ended or hang: nothing that was answered is asked again, nobody waits on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal, settled_journals
from gradebook.tasks.judging.session import lease as lease_module
from gradebook.tasks.judging.session.lease import Leases

SCORED = dict.fromkeys(JUDGMENT_SCHEMA.names) | {"status": "scored", "level_id": "good", "asked_at": "2026-11-20T00:00"}


class Ledger(dict[str, Any]):
    """Rows of the ledger, and the number of look-ups. lock_count: look-ups that find it locked."""

    look_count = lock_count = 0

    def __call__(self, keys: list[str]) -> dict[str, Any]:
        self.look_count += 1
        if self.lock_count:
            self.lock_count -= 1
            raise duckdb.TransactionException("database is locked")
        return {key: self[key] for key in keys if key in self}

    def settle(self, folder: Path, *keys: str) -> None:
        """Take over all journals of ended sessions, which answered these keys."""
        self.update({key: SCORED | {"request_key": key, "judgment_id": f"settled {key}"} for key in keys})
        for path in settled_journals(folder):
            path.unlink()


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr(lease_module, "LOOK_EVERY_S", 0.01)
    return Ledger()


@pytest.fixture
def leases(tmp_path: Path, ledger: Ledger) -> Iterator[Callable[[], Leases]]:
    """Opens sessions, each with a journal of its own."""
    with ExitStack() as stack:

        def open_leases() -> Leases:
            opened = Leases(tmp_path, stack.enter_context(Journal(tmp_path, "mine")), ledger)
            stack.callback(opened.close)
            return opened

        yield open_leases


def end_after(folder: Path, leased: list[str], answered: str) -> None:
    """A session that leases some keys, answers one of them, and ends."""
    with Journal(folder, "ended") as journal:
        owner = Leases(folder, journal, lambda _keys: {})
        owner.acquire(leased)
        journal.append(SCORED | {"request_key": answered, "judgment_id": f"journal {answered}"})
        owner.close()


def wait_for(leases: Leases, *keys: str) -> list[str] | None:
    rows = asyncio.run(asyncio.wait_for(leases.answered(*keys), 5))
    return rows and [row["judgment_id"] for row in rows]


def test_what_a_dead_session_answered_is_found_after_others_leased_something_else(tmp_path: Path, leases):
    end_after(tmp_path, ["a", "b"], answered="b")
    leases().acquire(["a"])
    last = leases()
    assert last.acquire(["b"]) == {"b"}
    assert wait_for(last, "b") == ["journal b"]


def test_what_is_leased_late_is_looked_up_whoever_leased_it(tmp_path: Path, leases, ledger: Ledger):
    late = leases()
    late.acquire([])
    end_after(tmp_path, ["a", "b"], answered="b")
    ledger.settle(tmp_path, "b")
    leases().acquire(["c"])  # drops what the one that ended leased: its journal is gone
    assert late.acquire(["b", "d"], is_late=True) == {"b"}
    assert wait_for(late, "b") == ["settled b"]


def test_what_the_ledger_held_of_a_pack_is_not_looked_up_again(tmp_path: Path, leases, ledger: Ledger):
    waiting = leases()
    with Journal(tmp_path, "first") as journal, Journal(tmp_path, "second") as living:
        first, second = (Leases(tmp_path, each, ledger) for each in (journal, living))
        first.acquire(["a"])
        second.acquire(["b"])
        assert waiting.acquire(["a", "b"]) == {"a", "b"}
        first.close()
        journal.close()
        ledger.settle(tmp_path, "a")

        async def answered() -> list[dict[str, Any]] | None:
            asked = asyncio.ensure_future(waiting.answered("a", "b"))
            await asyncio.sleep(0.15)
            living.append(SCORED | {"request_key": "b", "judgment_id": "journal b"})
            return await asyncio.wait_for(asked, 5)

        rows = asyncio.run(answered())
        second.close()
    assert ([row["judgment_id"] for row in rows or ()], ledger.look_count) == (["settled a", "journal b"], 1)


def test_a_session_that_writes_nothing_for_long_is_not_waited_for(leases, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease_module, "IDLE_PATIENCE_S", 0.05)
    hanging, waiting = leases(), leases()
    hanging.acquire(["a"])
    waiting.acquire(["a"])
    assert wait_for(waiting, "a") is None
    assert "has not grown for" in waiting.note


def test_two_sessions_that_wait_for_one_another_both_go_on(leases, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease_module, "IDLE_PATIENCE_S", 0.05)
    first, second = leases(), leases()
    for one, key in ((first, "a"), (second, "b"), (first, "b"), (second, "a")):
        one.acquire([key])

    async def wait_for_both() -> list[object]:
        return await asyncio.wait_for(asyncio.gather(first.answered("b"), second.answered("a")), 5)

    assert asyncio.run(wait_for_both()) == [None, None]


def test_a_lock_that_passed_takes_nothing_off_the_patience_with_the_next(
    tmp_path: Path, leases, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    session, now = leases(), 1000.0
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: now)
    for key in ("a", "b"):
        end_after(tmp_path, [key, "answered"], answered="answered")
        ledger.lock_count = 2
        assert session.acquire([key]) == frozenset()
        now += lease_module.COMMIT_DEADLINE_S + 1


def test_sessions_of_one_run_lease_in_one_go(tmp_path: Path, leases, ledger: Ledger):
    other = leases()
    other.acquire(["b"])
    with Journal(tmp_path, "run") as journal:
        members = [Leases(tmp_path, journal, ledger) for _ in range(2)]
        members[0].acquire_together([(members[0], ["a"]), (members[1], ["b", "c"])])
        assert [(one.is_foreign(("a",)), one.is_foreign(("b",))) for one in members] == [(False, False), (False, True)]
        assert other.acquire(["a", "c"]) == {"a", "c"}
        for one in members:
            one.close()

"""Leases: of sessions that want the same at once one pays, whatever becomes of it."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal, settled_journals
from gradebook.tasks.judging.session.lease import LOOK_EVERY_S, Leases

ASKED_AT = datetime(2026, 11, 20, tzinfo=UTC)
SCORED = dict.fromkeys(JUDGMENT_SCHEMA.names) | {"status": "scored", "level_id": "good", "asked_at": ASKED_AT}
OWNER = """
import sys
from pathlib import Path
from gradebook.tasks.judging.session.lease import Leases
from gradebook.tasks.judging.replies.journal import Journal
journal = Journal(Path(sys.argv[1]), "other")
leases = Leases(Path(sys.argv[1]), journal, lambda keys: {})
print(len(leases.acquire(sys.argv[2].split(","))), flush=True)
for line in sys.stdin:
    if line.strip() == "close":
        leases.close()
        journal.close()
    elif line.strip() == "half":
        with journal.path.open("ab") as file:
            file.write(b'{"judgment_id": "torn')
    else:
        import json
        journal.append(json.loads(line))
    print("done", flush=True)
"""


class OtherProcess:
    """A process with a session of its own that leased some keys."""

    def __init__(self, folder: Path, keys: str) -> None:
        command = [sys.executable, "-c", OWNER, str(folder), keys]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.foreign_count = int(self._answer())

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self._answer() == "done\n"

    def judge(self, key: str, **changes: Any) -> None:
        self.tell(json.dumps(SCORED | {"request_key": key, "judgment_id": f"of-{key}"} | changes, default=str))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def other(folder: Path, keys: str) -> Iterator[OtherProcess]:
    process = OtherProcess(folder, keys)
    try:
        yield process
    finally:
        process.kill()


def nothing_held(_keys: list[str]) -> dict[str, Any]:
    return {}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[..., Leases]]:
    """Opens sessions of this process, each with a journal of its own."""
    with ExitStack() as stack:

        def open_leases(held: Callable[[list[str]], dict[str, Any]] = nothing_held) -> Leases:
            leases = Leases(tmp_path, stack.enter_context(Journal(tmp_path, "mine")), held)
            stack.callback(leases.close)
            return leases

        yield open_leases


def ids(answered: list[list[dict[str, Any]] | None]) -> list[str | None]:
    return [rows and ",".join(row["judgment_id"] for row in rows) for rows in answered]


async def answers(leases: Leases, *keys: str) -> list[str | None]:
    return ids(await asyncio.wait_for(asyncio.gather(*(leases.answered(key) for key in keys)), 10))


async def answers_after(leases: Leases, keys: tuple[str, ...], happen: Callable[[], object]) -> list[str | None]:
    """Begin to wait, and let something happen meanwhile."""
    waiting = asyncio.ensure_future(answers(leases, *keys))
    await asyncio.sleep(LOOK_EVERY_S / 3)
    assert not waiting.done()
    await asyncio.to_thread(happen)
    return await waiting


def test_keys_that_nobody_leased_are_ones_own(session):
    assert session().acquire(["a", "b"]) == frozenset()


def test_keys_that_a_living_session_leased_are_named(session):
    first, second = session(), session()
    first.acquire(["a", "b"])
    assert second.acquire(["b", "c"]) == {"b"}


def test_who_waits_gets_the_row_of_another_process(tmp_path, session):
    with other(tmp_path, "a,b") as owner:
        leases = session()
        assert leases.acquire(["a", "b", "c"]) == {"a", "b"}
        assert asyncio.run(answers_after(leases, ("a",), lambda: owner.judge("a"))) == ["of-a"]


def test_the_row_has_the_columns_of_a_judgment(tmp_path, session):
    with other(tmp_path, "a") as owner:
        leases = session()
        leases.acquire(["a"])
        owner.judge("a")
        (row,) = asyncio.run(leases.answered("a"))
    assert row == SCORED | {"request_key": "a", "judgment_id": "of-a"}


def test_all_who_wait_for_a_key_get_the_same(tmp_path, session):
    with other(tmp_path, "a") as owner:
        leases = session()
        leases.acquire(["a"])
        assert asyncio.run(answers_after(leases, ("a",) * 50, lambda: owner.judge("a"))) == ["of-a"] * 50


def test_an_unscored_reply_is_waited_past(tmp_path, session):
    with other(tmp_path, "a") as owner:
        leases = session()
        leases.acquire(["a"])
        owner.judge("a", status="parse_error", judgment_id="useless")
        assert asyncio.run(answers_after(leases, ("a",), lambda: owner.judge("a"))) == ["of-a"]


def test_after_a_kill_what_was_answered_is_taken_and_the_rest_is_ones_own(tmp_path, session):
    with other(tmp_path, "a,b") as owner:
        leases = session()
        leases.acquire(["a", "b"])
        owner.judge("a")
        owner.tell("half")
        assert asyncio.run(answers_after(leases, ("b",), owner.kill)) == [None]
        assert asyncio.run(answers(leases, "a", "b")) == ["of-a", None]


def test_of_many_who_wait_for_a_killed_owner_one_asks(tmp_path, session):
    with other(tmp_path, "a") as owner:
        waiting = [session(), session()]
        assert [leases.acquire(["a"]) for leases in waiting] == [{"a"}, {"a"}]
        owner.kill()

    async def first_answer() -> int:
        tasks = [asyncio.ensure_future(leases.answered("a")) for leases in waiting]
        done, pending = await asyncio.wait(tasks, timeout=2.5 * LOOK_EVERY_S)
        assert all(task.result() is None for task in done)
        for task in pending:
            task.cancel()
        return len(done)

    assert asyncio.run(first_answer()) == 1


def test_a_lease_of_a_killed_process_is_taken_over(tmp_path, session):
    with other(tmp_path, "a,b") as owner:
        owner.judge("a")
        owner.kill()
    leases = session()
    assert leases.acquire(["a", "b"]) == {"a"}  # in its journal, which nobody settled yet
    assert asyncio.run(answers(leases, "a", "b")) == ["of-a", None]
    assert session().acquire(["b"]) == {"b"}


def test_what_was_settled_since_is_looked_up_in_the_ledger(tmp_path, session):
    ledger: dict[str, Any] = {}
    with other(tmp_path, "a,b") as owner:
        leases = session(lambda keys: {key: ledger[key] for key in keys if key in ledger})
        owner.tell("close")
    ledger["a"] = SCORED | {"request_key": "a", "judgment_id": "settled"}
    for path in settled_journals(tmp_path):
        path.unlink()
    assert leases.acquire(["a", "b"]) == {"a"}
    assert asyncio.run(answers(leases, "a", "b")) == ["settled", None]


def test_a_journal_that_is_settled_while_one_waits_is_still_read(tmp_path, session):
    with other(tmp_path, "a,b") as owner:
        leases = session()
        leases.acquire(["a", "b"])

        def finish() -> None:
            owner.judge("a")
            owner.tell("close")
            for path in settled_journals(tmp_path):
                path.unlink()

        assert asyncio.run(answers_after(leases, ("a", "b"), finish)) == ["of-a", None]


def test_a_key_that_its_owner_released_is_ones_own(session):
    first, second = session(), session()
    first.acquire(["a", "b"])
    second.acquire(["a", "b"])

    async def release() -> list[str | None]:
        first.release("a")
        return await answers(second, "a")

    assert asyncio.run(release()) == [None]
    assert session().acquire(["a", "b"]) == {"a", "b"}  # the second's by now, and still the first's


def test_a_key_of_ones_own_is_not_waited_for(session):
    leases = session()
    leases.acquire(["a"])
    assert asyncio.run(answers(leases, "a", "never leased")) == [None, None]


def test_two_processes_that_lease_at_once_share_nothing(tmp_path):
    keys = ",".join(f"{number:032x}" for number in range(2_000))
    with ExitStack() as stack:
        owners = [stack.enter_context(other(tmp_path, keys)) for _ in range(3)]
    assert sorted(owner.foreign_count for owner in owners) == [0, 2_000, 2_000]


def test_a_fault_of_the_ledger_reaches_whoever_waits(tmp_path, session):
    def fail(_keys: list[str]) -> dict[str, Any]:
        raise RuntimeError("the lake is gone")

    with other(tmp_path, "a") as owner:
        leases = session(fail)
        leases.acquire(["a"])
        owner.kill()
    with pytest.raises(RuntimeError, match="the lake is gone"):
        asyncio.run(answers(leases, "a"))


@pytest.mark.parametrize("content", [b"not a database, but a text that is long enough to be one", b"\0" * 5000])
def test_a_broken_file_means_no_leases_and_a_note(tmp_path, session, content):
    (tmp_path / "claims.sqlite").write_bytes(content)
    leases = session()
    assert (leases.acquire(["a"]), asyncio.run(answers(leases, "a"))) == (frozenset(), [None])
    assert "claims.sqlite: can't be used" in leases.note


def test_a_database_of_something_else_is_left_as_it_is(tmp_path, session):
    with sqlite3.connect(tmp_path / "claims.sqlite") as database:
        database.execute("create table claims (mine text)")
    database.close()
    before = (tmp_path / "claims.sqlite").read_bytes()
    assert "a database of something else" in session().note
    assert (tmp_path / "claims.sqlite").read_bytes() == before


def test_a_file_that_breaks_while_one_waits_ends_the_waiting(tmp_path, session):
    first, second = session(), session()
    first.acquire(["a"])
    second.acquire(["a"])
    broken = asyncio.run(answers_after(second, ("a",), lambda: (tmp_path / "claims.sqlite").write_bytes(b"x" * 9000)))
    assert broken == [None]
    assert "can't be used" in second.note


def test_a_place_that_is_no_file_means_no_leases(tmp_path, session):
    (tmp_path / "claims.sqlite").mkdir()
    assert session().acquire(["a"]) == frozenset()


FORKING = """
import os, sys, threading, time
from pathlib import Path
from gradebook.tasks.judging.replies.journal import Journal, is_journal_held
from gradebook.tasks.judging.session.lease import LeaseStore

folder = Path(sys.argv[1])
store, journal, has_begun = LeaseStore(folder), Journal(folder, "parent"), threading.Event()
end, ends = os.pipe()

def lease():
    with store._transaction():
        has_begun.set()
        time.sleep(0.3)

threading.Thread(target=lease).start()
has_begun.wait()
if (child := os.fork()) == 0:
    begun = time.monotonic()
    LeaseStore(folder).acquire("child", ["key"], bool, bool)
    os.read(end, 1)  # lives until the parent has closed its journal
    os._exit(0 if time.monotonic() - begun < 20 else 7)
journal.append({})
journal.close()
is_held = is_journal_held(journal.path)
os.write(ends, b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not is_held
"""


def test_a_fork_in_the_middle_of_a_lease_leaves_no_lock_in_the_child(tmp_path: Path):
    # From a process of its own: this one has threads of other tests, whose locks a fork would inherit.
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")

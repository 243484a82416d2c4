"""Two sessions at once that want the same: packs, questions that come up later, and a ledger that is locked."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.rubrics.prompts.batched_criteria import packed_criterion_digest
from gradebook.rubrics.prompts.prompt import Case, case_digest, request_key
from gradebook.tasks.judging.replies.batched_criteria import PackedAnswers, PackedQuestion
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.session import lease as lease_module
from gradebook.tasks.judging.session.lease import Leases
from gradebook.tasks.judging.session.session import JudgingSession, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import TONE
from tests.support.loopback_judge import LoopbackJudge

PACK = (TONE, TONE.model_copy(update={"id": "care", "description": "Does it care?"}))
SCORED = dict.fromkeys(JUDGMENT_SCHEMA.names) | {"status": "scored", "level_id": "good", "asked_at": "2026-11-20T00:00"}


def nothing_held(_keys: list[str]) -> dict[str, Any]:
    return {}


def make_pack(number: int) -> PackedQuestion:
    case = Case(f"Question {number}?", "Thank you for asking.")
    keys = [request_key("0" * 32, packed_criterion_digest(each, PACK), case_digest(case)) for each in PACK]
    return PackedQuestion(
        tuple(Question(f"{number:032x}", each, case, key) for each, key in zip(PACK, keys, strict=True))
    )


@pytest.fixture
def session(judge: LoopbackJudge, tmp_path: Path) -> Iterator[Callable[[str], JudgingSession]]:
    """Opens sessions in one folder, of a run each."""
    settings = JudgeSettings(model="m", base_url=judge.base_url, packing=2)
    with ExitStack() as stack:

        def open_one(run_id: str) -> JudgingSession:
            return stack.enter_context(open_session(settings, journal_folder=tmp_path, run_id=run_id))

        yield open_one


def ask_both(first: JudgingSession, second: JudgingSession, count: int) -> list[list[PackedAnswers]]:
    answers: list[list[PackedAnswers]] = [[], []]
    with ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(each.ask, map(make_pack, range(count)), kept.append)
            for each, kept in zip((first, second), answers, strict=True)
        ]
        for one in asked:
            one.result()
    return answers


def test_of_two_sessions_that_want_the_same_packs_one_asks(session, judge: LoopbackJudge, tmp_path: Path):
    first, second = session("first"), session("second")
    for each in (first, second):
        each.open_leases(nothing_held).acquire([key for number in range(6) for key in make_pack(number).part_keys])
    answers = ask_both(first, second, 6)
    assert judge.request_count == 6
    levels = [{each.question.request_key: each.level_id for pack in kept for each in pack.answers} for kept in answers]
    assert (levels[0] == levels[1], len(levels[0])) == (True, 12)


def test_a_pack_that_came_out_useless_in_part_is_asked_again_by_who_waits(session, judge: LoopbackJudge):
    first, second = session("first"), session("second")
    for each in (first, second):
        each.open_leases(nothing_held).acquire(make_pack(0).part_keys)
    judge.faults = ["one liar"] * 2
    ask_both(first, second, 1)
    assert judge.request_count == 3


def test_what_is_leased_later_is_waited_for_too(session, judge: LoopbackJudge):
    first, second = session("first"), session("second")
    for each in (first, second):
        each.open_leases(nothing_held).acquire(())
        each.lease_also(make_pack(0).part_keys)
    ask_both(first, second, 1)
    assert judge.request_count == 1


def test_a_pack_with_a_part_that_is_held_is_asked_once(session, judge: LoopbackJudge):
    keys = make_pack(0).part_keys
    held = {keys[0]: SCORED | {"request_key": keys[0], "judgment_id": "held"}}
    first, second = session("first"), session("second")
    for each in (first, second):
        each.open_leases(lambda wanted: {key: held[key] for key in wanted if key in held}).acquire(())
        each.lease_also(keys)
    ask_both(first, second, 1)
    assert judge.request_count == 1


def test_who_takes_an_answered_pack_pays_for_none_of_its_parts(session):
    one, answers = session("first"), []
    one.ask([make_pack(0), make_pack(0)], answers.append)
    paid, unpaid = ([each.cost_usd for each in came.answers] for came in answers)
    assert (None in paid, unpaid) == (True, [0.0, 0.0])


def test_who_never_leased_leases_nothing_later(session, tmp_path: Path):
    session("first").lease_also(["a"])
    assert not (tmp_path / "claims.sqlite").exists()


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Callable[..., Leases]]:
    with ExitStack() as stack:

        def open_leases(held: Callable[[list[str]], dict[str, Any]] = nothing_held) -> Leases:
            opened = Leases(tmp_path, stack.enter_context(Journal(tmp_path, "mine")), held)
            stack.callback(opened.close)
            return opened

        yield open_leases


def test_who_owns_a_part_of_a_pack_waits_for_none_of_it(leases):
    first, second = leases(), leases()
    first.acquire(["a"])
    second.acquire(["a", "b"])
    assert (second.is_foreign(("a",)), second.is_foreign(("a", "b"))) == (True, False)


class LockedTwice:
    """A ledger that another process holds at the first two looks."""

    def __init__(self) -> None:
        self.look_count = 0

    def __call__(self, keys: list[str]) -> dict[str, Any]:
        self.look_count += 1
        if self.look_count <= 2:
            raise duckdb.TransactionException("database is locked")
        return {key: SCORED | {"judgment_id": "held"} for key in keys}


def test_a_lock_that_passes_ends_no_waiting(tmp_path: Path, leases, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease_module, "LOOK_EVERY_S", 0.01)
    ledger = LockedTwice()
    with Journal(tmp_path, "other") as journal:
        owner, waiting = Leases(tmp_path, journal, nothing_held), leases(ledger)
        owner.acquire(["a"])
        waiting.acquire(["a"])
        owner.close()
    (row,) = asyncio.run(waiting.answered("a"))
    assert (row["judgment_id"], ledger.look_count) == ("held", 3)


def test_a_lock_that_passes_does_not_prevent_leasing(tmp_path: Path, leases, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease_module, "LOOK_EVERY_S", 0.01)
    with Journal(tmp_path, "other") as journal:
        owner = Leases(tmp_path, journal, nothing_held)
        owner.acquire(["a"])
        owner.close()
    assert leases(LockedTwice()).acquire(["a"]) == {"a"}


def test_a_fault_of_the_ledger_that_is_no_lock_is_raised(tmp_path: Path, leases):
    def fail(_keys: list[str]) -> dict[str, Any]:
        raise duckdb.IOException("no space left")

    with Journal(tmp_path, "other") as journal:
        owner = Leases(tmp_path, journal, nothing_held)
        owner.acquire(["a"])
        owner.close()
    with pytest.raises(duckdb.IOException, match="no space left"):
        leases(fail).acquire(["a"])

"""The budget: never passed, not by one request."""

import asyncio
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached, LakeError, UnfinishedError
from gradebook.tasks.judging.budget import Budget, read_budget


async def spend(budget: Budget, worst_usd: float, cost_usd: float | None) -> float:
    ticket = await budget.reserve(worst_usd)
    await asyncio.sleep(0)
    budget.settle(ticket, cost_usd)
    return budget.spent_usd


def test_a_request_that_does_not_fit_is_not_sent():
    with pytest.raises(BudgetReached):
        asyncio.run(spend(Budget(0.5), 0.6, 0.1))


def test_a_request_that_just_fits_is_sent():
    assert asyncio.run(spend(Budget(0.5), 0.5, 0.25)) == 0.25


def test_a_request_that_may_have_been_billed_counts_in_full():
    assert asyncio.run(spend(Budget(0.5), 0.5, None)) == 0.5


def test_no_limit_still_counts():
    assert asyncio.run(spend(Budget(None), 9.0, 2.0)) == 2.0


def test_a_request_waits_for_what_others_hold():
    async def spend_twice() -> float:
        budget = Budget(1.0)
        await asyncio.gather(spend(budget, 0.75, 0.125), spend(budget, 0.75, 0.125))
        return budget.spent_usd

    assert asyncio.run(spend_twice()) == 0.25  # 2 x 0.125: the second waited, then 0.125 + 0.75 fitted


def test_the_limit_holds_when_many_ask_at_once():
    async def spend_often() -> float:
        budget = Budget(1.0)
        await asyncio.gather(*(spend(budget, 0.25, 0.25) for _ in range(50)), return_exceptions=True)
        return budget.spent_usd

    assert asyncio.run(spend_often()) == 1.0  # four of fifty


def test_what_earlier_sessions_spent_counts(tmp_path: Path):
    asyncio.run(spend(Budget(1.0, tmp_path / "budget.jsonl"), 0.5, 0.125))
    asyncio.run(spend(Budget(1.0, tmp_path / "budget.jsonl"), 0.5, None))
    assert Budget(1.0, tmp_path / "budget.jsonl").spent_usd == 0.625  # 0.125 + 0.5


def test_what_was_out_when_a_session_died_counts_at_its_worst(tmp_path: Path):
    asyncio.run(Budget(1.0, tmp_path / "budget.jsonl").reserve(0.75))
    budget = Budget(1.0, tmp_path / "budget.jsonl")
    assert budget.spent_usd == 0.75
    with pytest.raises(BudgetReached):
        asyncio.run(budget.reserve(0.5))


@pytest.mark.parametrize(("cut", "expected_usd"), [(1, 0.75), (9, 0.75), (30, 0.75)])  # the settlement has 32 bytes
def test_a_torn_settlement_counts_at_its_worst(tmp_path: Path, cut: int, expected_usd: float):
    path = tmp_path / "budget.jsonl"
    asyncio.run(spend(Budget(2.0, path), 0.75, 0.125))
    path.write_bytes(path.read_bytes()[:-cut])
    asyncio.run(spend(Budget(2.0, path), 0.5, 0.25))
    assert Budget(2.0, path).spent_usd == expected_usd + 0.25


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        '{"ticket":1,"cost_usd":-100}',
        '{"ticket":1,"cost_usd":"0.1"}',
        '{"ticket":1,"cost_usd":true}',
        '{"ticket":1,"cost_usd":null}',
        '{"ticket":1,"cost_usd":1e999}',
        '{"ticket":-1,"cost_usd":0.1}',
        '{"ticket":[1],"cost_usd":0.1}',
    ],
)
def test_a_broken_line_of_the_record_is_named(tmp_path: Path, line: str):
    path = tmp_path / "budget.jsonl"
    path.write_text(f'{{"ticket":1,"worst_usd":0.5}}\n{line}\n')
    with pytest.raises(LakeError, match=r"budget\.jsonl:2: "):
        Budget(1.0, path)


@pytest.mark.parametrize(
    ("planned_usd", "told"),
    [
        (None, "with a larger --budget-usd"),
        (12.3, "with --budget-usd 13"),  # 12.3 + 0.6 = 12.9
        (0.0, "with --budget-usd 0.60"),  # the next request alone
        (1234.0, "with --budget-usd 1300"),
    ],
)
def test_the_message_says_with_what_budget_to_go_on(planned_usd: float | None, told: str):
    with pytest.raises(BudgetReached, match=f"{told}$"):
        asyncio.run(Budget(0.5, planned_usd=planned_usd).reserve(0.6))


def test_the_budget_to_go_on_with_holds_what_earlier_sessions_spent(tmp_path: Path):
    asyncio.run(spend(Budget(1.0, tmp_path / "budget.jsonl"), 1.0, 1.0))
    with pytest.raises(BudgetReached, match="--budget-usd 4.5$"):  # 1 + 3 + 0.5
        asyncio.run(Budget(1.0, tmp_path / "budget.jsonl", planned_usd=3.0).reserve(0.5))


def test_a_record_is_read_without_a_change_while_someone_writes_it(tmp_path: Path):
    path = tmp_path / "budget.jsonl"
    path.write_bytes(b'{"ticket":1,"worst_usd":0.5}\n{"ticket":1,"cost_usd":0.25}\n{"ticket":2,"wor')
    assert (read_budget(path), path.stat().st_size) == ({1: 0.25}, 74)


def test_nothing_is_set_aside_that_can_not_be_recorded(tmp_path: Path):
    budget = Budget(1.0, tmp_path / "budget.jsonl")
    budget.close()
    with pytest.raises(UnfinishedError, match=r"budget\.jsonl"):
        asyncio.run(budget.reserve(0.5))


def test_a_request_dearer_than_its_reservation_ends_the_run_for_those_that_wait_too():
    async def spend_much() -> list[float | BaseException]:
        budget = Budget(1.0)
        return await asyncio.gather(*(spend(budget, 0.75, 7.5) for _ in range(3)), return_exceptions=True)

    first, *others = asyncio.run(spend_much())
    assert first == 7.5
    assert [type(each) for each in others] == [BudgetReached] * 2
    assert "could cost at most $0.750 came to $7.50" in str(others[0])


def test_what_a_killed_session_reserved_is_settled_once_and_never_upwards(tmp_path: Path):
    record = tmp_path / "budget.jsonl"
    record.write_bytes(b'{"ticket":1,"worst_usd":0.5}\n{"ticket":2,"worst_usd":0.25}\n')
    budget = Budget(1.0, record)
    for ticket, cost_usd in ((1, 0.125), (1, 0.0), (2, 0.375), (3, 0.0)):
        budget.settle_earlier(ticket, cost_usd)
    assert budget.spent_usd == 0.125 + 0.25
    budget.close()
    assert read_budget(record) == {1: 0.125, 2: 0.25}

"""The budget: never passed, not by one request."""

import asyncio

import pytest

from rubrics.errors import BudgetReached
from tasks.judging.budget import Budget


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

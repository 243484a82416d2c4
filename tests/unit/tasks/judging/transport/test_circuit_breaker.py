"""The endpoint is gone: half-open probes, waiting callers and the end of patience, on a virtual clock."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any, cast

import pytest

from gradebook.tasks.judging.transport.limits import CircuitBreaker
from tests.support.virtual_time import VirtualLoop, run_virtually, virtual_now

Ask = Callable[[], Coroutine[Any, Any, bool]]  # whether the endpoint answers


def breaker_of(patience_s: float = 180.0, failure_count: int = 0) -> CircuitBreaker:
    breaker = CircuitBreaker(patience_s, 130, virtual_now)
    for _ in range(failure_count):
        breaker.note_failure()
    return breaker


async def keep_asking(breaker: CircuitBreaker, ask: Ask) -> bool:
    """Ask until an answer comes; False where hope is given up."""
    while True:
        async with breaker.attempt():
            if await ask():
                breaker.note_answer()
                return True
            if breaker.note_failure():
                return False


def is_back_at(back_s: float, asked_at: list[float]) -> Ask:
    async def ask() -> bool:
        asked_at.append(virtual_now())
        await asyncio.sleep(0.01)
        return virtual_now() >= back_s

    return ask


async def answer_never(delay_s: float = 0.01) -> bool:
    await asyncio.sleep(delay_s)
    return False


def test_while_it_answers_nobody_waits():
    async def steps() -> float:
        breaker = breaker_of(failure_count=2)
        async with breaker.attempt():
            return virtual_now()

    assert run_virtually(steps()) == 0


def test_an_answer_between_failures_keeps_it_alive():
    async def steps() -> bool:
        breaker = breaker_of(failure_count=2)
        breaker.note_answer()
        breaker.note_failure()
        return breaker.is_gone

    assert not run_virtually(steps())


def test_three_failures_in_a_row_are_an_outage():
    async def steps() -> bool:
        breaker = breaker_of(failure_count=2)
        breaker.note_failure()
        return breaker.is_gone

    assert run_virtually(steps())


def test_gone_for_a_minute_all_get_their_answer():
    async def steps() -> list[bool]:
        breaker = breaker_of()
        return await asyncio.gather(*(keep_asking(breaker, is_back_at(60, [])) for _ in range(64)))

    assert run_virtually(steps()) == [True] * 64


def test_while_it_is_gone_one_at_a_time_asks_ever_more_rarely():
    asked_at: list[float] = []

    async def steps() -> None:
        breaker = breaker_of(failure_count=3)
        await asyncio.gather(*(keep_asking(breaker, is_back_at(60, asked_at)) for _ in range(64)))

    run_virtually(steps())
    assert len(asked_at) >= 8 + 63  # the probes, then all others
    gaps = [later - earlier for earlier, later in pairwise(asked_at) if earlier < 50]
    assert all(
        low <= gap <= high for gap, low, high in zip(gaps, (2, 4, 8, 10, 10), (2.1, 4.1, 8.1, 10.1, 10.1), strict=False)
    )


def test_after_an_answer_all_go_on_at_once():
    asked_at: list[float] = []

    async def steps() -> None:
        breaker = breaker_of(failure_count=3)
        await asyncio.gather(*(keep_asking(breaker, is_back_at(0, asked_at)) for _ in range(64)))

    run_virtually(steps())
    assert len(asked_at) == 64 and max(asked_at) - asked_at[0] == pytest.approx(0.01)


def test_an_answer_to_an_old_request_releases_all_while_the_probe_still_hangs():
    async def steps() -> float:
        breaker = breaker_of(failure_count=3)
        probe = asyncio.ensure_future(keep_asking(breaker, lambda: answer_never(120)))
        await asyncio.sleep(2)
        asyncio.get_running_loop().call_later(1, breaker.note_answer)
        async with breaker.attempt():
            probe.cancel()
            return virtual_now()

    assert run_virtually(steps()) == pytest.approx(3)


def test_gone_for_good_hope_ends_when_patience_does():
    async def steps() -> float:
        breaker = breaker_of(patience_s=180)
        await keep_asking(breaker, answer_never)
        return virtual_now()

    assert 180 <= run_virtually(steps()) < 191  # the last wait is 10 s at most


def test_requests_that_hang_for_two_minutes_each_use_up_patience():
    async def steps() -> float:
        breaker = breaker_of(patience_s=180)
        calls = [asyncio.ensure_future(keep_asking(breaker, lambda: answer_never(120))) for _ in range(3)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        return virtual_now()

    # 120 s until the three have failed; probes fail at about 241 and 363 s, 243 s after the first failure
    assert run_virtually(steps()) == pytest.approx(363, abs=2)


def test_a_night_asleep_is_not_patience():
    async def steps() -> bool:
        breaker = breaker_of(patience_s=180, failure_count=3)
        cast(VirtualLoop, asyncio.get_running_loop()).jump(8 * 3600)
        return breaker.note_failure()

    assert not run_virtually(steps())


def test_the_time_before_the_first_failure_is_not_patience():
    async def steps() -> list[bool]:
        breaker = breaker_of(patience_s=20)
        breaker.note_answer()
        await asyncio.sleep(25)
        return [breaker.note_failure() for _ in range(3)]

    assert run_virtually(steps()) == [False, False, False]


def test_without_patience_the_third_failure_is_the_end():
    async def steps() -> list[bool]:
        breaker = breaker_of(patience_s=0)
        return [breaker.note_failure() for _ in range(3)]

    assert run_virtually(steps()) == [False, False, True]


@pytest.mark.parametrize("cancel_s", [0.1, 1.5], ids=["while it waits", "while it is out"])
def test_a_cancelled_probe_frees_its_place(cancel_s: float):
    async def steps() -> bool:
        breaker = breaker_of(failure_count=3)
        probe = asyncio.ensure_future(keep_asking(breaker, lambda: answer_never(3600)))
        other = asyncio.ensure_future(keep_asking(breaker, is_back_at(0, [])))
        await asyncio.sleep(cancel_s)
        probe.cancel()
        return await asyncio.wait_for(other, 10)

    assert run_virtually(steps())


def test_stopped_all_who_wait_go_on():
    async def steps() -> float:
        breaker = breaker_of(failure_count=3)
        asyncio.get_running_loop().call_later(0.5, breaker.stop)
        await asyncio.gather(*(keep_asking(breaker, is_back_at(0, [])) for _ in range(64)))
        return virtual_now()

    assert run_virtually(steps()) == pytest.approx(0.51)

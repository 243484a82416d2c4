"""How many requests are out, and how fast: slots, growth, refusals, paces. All on a virtual clock."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from gradebook.tasks.judging.transport.limits import Limiter
from tests.support.law_over import law_over
from tests.support.simulated_endpoint import SimulatedEndpoint, ask_through
from tests.support.virtual_time import VirtualLoop, run_virtually, virtual_now

REFUSED_BY_PACE = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "0"}


async def fill(limiter: Limiter, stack: AsyncExitStack, count: int) -> None:
    for _ in range(count):
        await stack.enter_async_context(limiter.slot(1.0))


async def occupy(limiter: Limiter, tokens: float = 1.0, seconds: float = 0.0) -> float:
    """Enter a slot, stay for a while, and return when it was entered."""
    async with limiter.slot(tokens):
        entered_s = virtual_now()
        await asyncio.sleep(seconds)
    return entered_s


# -------- slots
def test_no_more_are_out_than_the_limit():
    async def steps() -> int:
        limiter = Limiter(3, now=virtual_now)
        async with AsyncExitStack() as stack:
            await fill(limiter, stack, 3)
            late = asyncio.ensure_future(occupy(limiter))
            await asyncio.sleep(60)
            late.cancel()
            return limiter.in_flight

    assert run_virtually(steps()) == 3


def test_who_waits_goes_in_the_order_of_coming():
    order: list[int] = []

    async def ask(limiter: Limiter, number: int) -> None:
        async with limiter.slot(1000.0 if number % 7 == 0 else 1.0):  # a large one is not overtaken
            order.append(number)
            await asyncio.sleep(0.01)

    async def steps() -> None:
        limiter = Limiter(4, 6000, 60_000, now=virtual_now)
        await asyncio.gather(*(ask(limiter, number) for number in range(200)))

    run_virtually(steps())
    assert order == list(range(200))


def test_who_comes_later_does_not_overtake_a_large_request_that_waits():
    async def steps() -> list[float]:
        limiter = Limiter(9, tokens_per_minute=600, now=virtual_now)  # 9.6 a second, 4.8 at once
        return await asyncio.gather(*(occupy(limiter, tokens) for tokens in (4.0, 4.8, 0.5)))

    entered = run_virtually(steps())
    assert entered[0] == 0 and entered[2] > entered[1] > 0.4  # (4.0 - 0.8 + 0.8) / 9.6


def test_a_thousand_cancelled_waiters_leave_nothing_behind():
    async def steps() -> int:
        limiter = Limiter(1, now=virtual_now)
        async with limiter.slot(1.0):
            waiters = [asyncio.ensure_future(occupy(limiter)) for _ in range(1000)]
            await asyncio.sleep(1)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.sleep(1)
        async with limiter.slot(1.0):
            return limiter.in_flight

    assert run_virtually(steps()) == 1


def test_a_waiter_that_is_cancelled_as_it_gets_its_slot_gives_it_back():
    async def steps() -> int:
        limiter = Limiter(1, now=virtual_now)
        async with limiter.slot(1.0):
            waiter = asyncio.ensure_future(occupy(limiter, seconds=60))
            await asyncio.sleep(1)
        waiter.cancel()  # the slot is free already, but the waiter has not run since
        await asyncio.gather(waiter, return_exceptions=True)
        async with limiter.slot(1.0):
            return limiter.in_flight

    assert run_virtually(steps()) == 1


def test_a_cancelled_large_request_lets_the_small_one_behind_it_go():
    async def steps() -> float:
        limiter = Limiter(9, tokens_per_minute=600, now=virtual_now)  # 9.6 a second, 4.8 at once
        async with limiter.slot(4.0):
            large = asyncio.ensure_future(occupy(limiter, 1000.0))  # until the bucket is full: 0.42 s
            small = asyncio.ensure_future(occupy(limiter, 0.5))
            await asyncio.sleep(0.1)
            large.cancel()
            return await small

    assert run_virtually(steps()) == pytest.approx(0.1)


def test_stopped_all_go_at_once():
    async def steps() -> list[float]:
        limiter = Limiter(1, 60, now=virtual_now)
        waiters = [asyncio.ensure_future(occupy(limiter, seconds=60)) for _ in range(100)]
        await asyncio.sleep(0.1)
        limiter.stop()
        return [*await asyncio.gather(*waiters), await occupy(limiter) - virtual_now()]

    entered = run_virtually(steps())
    assert entered == [0, *[pytest.approx(0.1)] * 99, 0]


# -------- how many are out
@pytest.mark.parametrize(("ceiling", "limit"), [(1, 1), (19, 19), (20, 20), (64, 20)])
def test_it_begins_with_twenty_or_the_ceiling(ceiling: int, limit: int):
    assert Limiter(ceiling).limit == limit


def test_a_limit_that_was_not_used_does_not_grow():
    async def steps() -> int:
        limiter = Limiter(100, now=virtual_now)
        await ask_through(limiter, SimulatedEndpoint(), 200, caller_count=15)  # 75% of 20
        return limiter.limit

    assert run_virtually(steps()) == 20


def test_a_burst_of_refusals_shrinks_it_once():
    async def steps() -> list[int]:
        limiter = Limiter(20, now=virtual_now)
        await asyncio.sleep(1)
        for _ in range(20):
            limiter.note_rate_limit({}, 0.0, took_s=0.1)
        limits = [limiter.limit]
        await asyncio.sleep(1)
        limiter.note_rate_limit({}, 0.0, took_s=0.1)  # sent since
        return [*limits, limiter.limit]

    assert run_virtually(steps()) == [16, 12]  # 20 * 0.8, 16 * 0.8 = 12.8


def test_a_refusal_that_names_the_minutes_requests_slows_the_pace_alone():
    async def steps() -> int:
        limiter = Limiter(64, now=virtual_now)
        limiter.note_rate_limit(REFUSED_BY_PACE, 1.0)
        return limiter.limit

    assert run_virtually(steps()) == 20


# -------- replies that take longer
async def most_and_last_out(worker_count: int, ceiling: int, call_count: int) -> tuple[int, int]:
    """Most requests in flight, and the limit at the end, at a server that works at some and lets the others wait."""
    limiter, workers = Limiter(ceiling, now=virtual_now, start=4), asyncio.Semaphore(worker_count)
    most = 0

    async def ask() -> None:
        nonlocal most
        async with limiter.slot(1.0):
            began, most = virtual_now(), max(most, limiter.in_flight)
            async with workers:
                await asyncio.sleep(2.0)
            limiter.note_reply({}, virtual_now() - began)

    await asyncio.gather(*(ask() for _ in range(call_count)))
    return most, limiter.limit


@pytest.mark.parametrize(("worker_count", "most", "limit"), [(1, 8, 4), (4, 8, 4), (16, 32, 16), (64, 64, 64)])
def test_more_go_out_until_they_only_wait_in_a_queue(worker_count: int, most: int, limit: int):
    found = run_virtually(most_and_last_out(worker_count, 64, 6 * limit))
    assert found == (most, limit)


def test_requests_without_a_reply_in_time_halve_it_once():
    async def steps() -> list[int]:
        limiter, limits = Limiter(64, now=virtual_now), []
        for _ in range(2):
            await asyncio.sleep(120)
            for _ in range(20):
                limiter.note_timeout(100)
            limits.append(limiter.limit)
        return limits

    assert run_virtually(steps()) == [10, 5]


# -------- holding back
async def let_out_at(limiter: Limiter, count: int) -> list[float]:
    """When requests that take no time at all are let out."""
    times: list[float] = []

    async def ask() -> None:
        async with limiter.slot(1.0):
            times.append(virtual_now())

    await asyncio.gather(*(ask() for _ in range(count)))
    return times


def test_retry_after_holds_those_that_come_after_it_and_spreads_them():
    async def steps() -> list[float]:
        limiter = Limiter(20, now=virtual_now)
        limiter.note_rate_limit({}, 3.0)
        return await let_out_at(limiter, 20)

    times = run_virtually(steps())
    assert times[0] == pytest.approx(3, abs=0.01) and times[-1] == pytest.approx(3.5, abs=0.05)


def test_refusals_that_name_no_time_hold_longer_each_time():
    async def steps() -> list[float]:
        limiter, times = Limiter(20, now=virtual_now), []
        for _ in range(2):
            limiter.note_rate_limit({}, None)
            times += await let_out_at(limiter, 1)
        return times

    assert run_virtually(steps()) == pytest.approx([0.25, 0.75], abs=0.01)


@law_over("value", ["-1", "0", "", "nan", "inf", "1e3", "9" * 40, "600, 600", "٦٠٠", "\0", "6_0", "x"])
@law_over("unit", ["requests", "tokens"])
def test_a_limit_that_says_nothing_is_ignored(value: str, unit: str):
    async def steps() -> list[float]:
        limiter = Limiter(20, now=virtual_now)
        limiter.note_reply({f"x-ratelimit-limit-{unit}": value, f"x-ratelimit-remaining-{unit}": value})
        return await let_out_at(limiter, 500)

    assert run_virtually(steps())[-1] == 0


def gap_after(*notes: Callable[[Limiter], None]) -> float:
    """Seconds between two requests, once what may go out at once has gone."""

    async def steps() -> list[float]:
        limiter = Limiter(20, now=virtual_now)
        for note in notes:
            note(limiter)
        return await let_out_at(limiter, 40)

    times = run_virtually(steps())
    return round(times[-1] - times[-2], 3)


def refuse(limiter: Limiter) -> None:
    limiter.note_rate_limit(REFUSED_BY_PACE, 1.0)


def test_a_refusal_that_names_the_limit_sets_the_pace_a_little_below_it():
    assert gap_after(refuse) == 0.104  # 60 / (600 * 0.96)


def test_after_a_refusal_no_credit_gathers_while_requests_are_held():
    async def steps() -> list[float]:
        limiter = Limiter(20, now=virtual_now)
        refuse(limiter)
        return await let_out_at(limiter, 3)

    assert run_virtually(steps()) == pytest.approx([1.104, 1.208, 1.312], abs=0.01)


def test_refusals_without_a_reply_between_them_say_nothing_more_of_the_pace():
    assert gap_after(*[refuse] * 10) == 0.104


def test_refusals_at_the_pace_of_the_limit_slow_it_further():
    assert gap_after(refuse, lambda limiter: limiter.note_reply({}), refuse) == 0.13  # 0.104 / 0.8


@pytest.mark.parametrize("unit", ["requests", "tokens"])
def test_a_limit_in_a_reply_sets_the_pace(unit: str):
    assert gap_after(lambda limiter: limiter.note_reply({f"x-ratelimit-limit-{unit}": "600"})) == 0.104


def test_the_users_own_limit_stands_against_a_higher_one_of_the_endpoint():
    async def steps() -> list[float]:
        limiter = Limiter(20, 600, now=virtual_now)
        limiter.note_reply({"x-ratelimit-limit-requests": "6000"})
        limiter.note_rate_limit({"x-ratelimit-limit-requests": "6000", "x-ratelimit-remaining-requests": "0"}, 0.0)
        return await let_out_at(limiter, 40)

    times = run_virtually(steps())
    assert times[-1] - times[-2] >= 60 / 600


def test_a_request_larger_than_the_bucket_goes_alone_when_it_is_full():
    async def steps() -> list[float]:
        limiter = Limiter(20, tokens_per_minute=600, now=virtual_now)  # 9.6 a second, 4.8 at once
        times = []
        for _ in range(3):
            async with limiter.slot(48.0):
                times.append(round(virtual_now(), 2))
        return times

    assert run_virtually(steps()) == [0, 5, 10]  # 48 / 9.6


def test_tokens_are_settled_on_the_usage():
    async def steps() -> float:
        limiter = Limiter(20, tokens_per_minute=600, now=virtual_now)
        async with limiter.slot(48.0):
            limiter.note_tokens(48.0, 0)
        return (await let_out_at(limiter, 1))[0]

    assert run_virtually(steps()) == 0


def test_tokens_that_come_back_fill_no_bucket_beyond_its_burst():
    async def steps() -> list[float]:
        limiter = Limiter(20, tokens_per_minute=600, now=virtual_now)
        limiter.note_tokens(1e6, 0)
        return await let_out_at(limiter, 50)

    assert sum(time_s == 0 for time_s in run_virtually(steps())) == 4  # 4.8 at once


def test_a_night_asleep_fills_no_bucket_beyond_its_burst():
    async def steps() -> int:
        limiter = Limiter(100, 600, now=virtual_now)  # 9.6 a second, 4 at once
        await let_out_at(limiter, 50)
        cast(VirtualLoop, asyncio.get_running_loop()).jump(8 * 3600)
        began_s = virtual_now()
        return sum(time_s < began_s + 0.1 for time_s in await let_out_at(limiter, 50))

    assert run_virtually(steps()) == 5  # 4.8, and what flows in meanwhile


# -------- an endpoint with a limit
def ask_simulated(
    endpoint: Callable[[], SimulatedEndpoint], count: int, requests_per_minute: float | None = None
) -> tuple[SimulatedEndpoint, float]:
    async def steps() -> tuple[SimulatedEndpoint, float]:
        simulated = endpoint()
        limiter = Limiter(64, requests_per_minute, now=virtual_now)
        return simulated, await ask_through(limiter, simulated, count)

    return run_virtually(steps())


@law_over("latency_s", [0.02, 0.2])
@law_over("per_minute", [600, 3_000, 12_000])
@law_over("tells", ["refusals", "always"])
def test_nine_tenths_of_a_limit_are_used_and_two_in_a_hundred_refused(per_minute: int, latency_s: float, tells: str):
    count = 2_000
    endpoint, took_s = ask_simulated(
        lambda: SimulatedEndpoint(per_minute, latency_s, jitter_s=0.005, tells=tells), count
    )
    assert count / (per_minute / 60 * took_s) >= 0.9
    assert endpoint.refused_rate <= 0.02


@pytest.mark.parametrize("per_minute", [60, 600])
def test_the_users_own_limit_is_met_without_a_refusal(per_minute: int):
    endpoint, took_s = ask_simulated(
        lambda: SimulatedEndpoint(per_minute, 0.2, jitter_s=0.02, tells="never"), per_minute * 2, per_minute
    )
    assert endpoint.refused_rate == 0
    assert 0.9 <= per_minute * 2 / (per_minute / 60 * took_s) <= 1


@pytest.mark.parametrize("retry_after_s", [None, 1.0])
def test_an_endpoint_that_names_no_limit_is_not_hammered(retry_after_s: float | None):
    endpoint, took_s = ask_simulated(
        lambda: SimulatedEndpoint(600, 0.02, tells="never", retry_after_s=retry_after_s), 2_000
    )
    assert endpoint.refused_rate <= 0.05
    assert 2_000 / (10 * took_s) >= 0.8


def test_at_most_eight_at_once_are_found_out():
    endpoint, took_s = ask_simulated(lambda: SimulatedEndpoint(most_out=8, tells="never", retry_after_s=None), 2_000)
    assert endpoint.refused_rate <= 0.02
    assert took_s <= 1.3 * 2_000 * 0.2 / 8


@pytest.mark.parametrize(
    ("tells", "later", "settled_s"),
    [("refusals", 300, 30), ("always", 300, 30), ("refusals", 1_200, 240), ("always", 1_200, 30)],
)
def test_a_limit_that_is_halved_or_doubled_is_followed(tells: str, later: int, settled_s: float):
    async def steps() -> SimulatedEndpoint:
        endpoint = SimulatedEndpoint(600, 0.2, tells=tells)
        asyncio.get_running_loop().call_at(20, lambda: setattr(endpoint, "per_minute", later))
        asking = asyncio.ensure_future(ask_through(Limiter(64, now=virtual_now), endpoint, 100_000, caller_count=80))
        await asyncio.sleep(settled_s + 60)
        asking.cancel()
        return endpoint

    endpoint = run_virtually(steps())
    assert endpoint.used_rate(settled_s, settled_s + 60) >= 0.9
    assert sum(at > 15 for at in endpoint.refused_at) <= 0.02 * len(endpoint.statuses)


def test_64_in_flight_are_reached_within_three_rounds():
    async def steps() -> tuple[int, float]:
        limiter = Limiter(64, now=virtual_now)
        await ask_through(limiter, SimulatedEndpoint(latency_s=0.2), 124)  # 20 + 40 + 64
        return limiter.limit, virtual_now()

    limit, took_s = run_virtually(steps())
    assert limit == 64 and took_s < 0.65


@pytest.mark.parametrize("refuse_rate", [0.5, 0.9])
def test_refusals_that_no_pace_avoids_do_not_bring_it_to_a_standstill(refuse_rate: float):
    endpoint = SimulatedEndpoint(refuse_rate=refuse_rate, tells="never", retry_after_s=1.0)

    async def steps() -> float:
        return await ask_through(Limiter(32, now=virtual_now), endpoint, 30, caller_count=30)

    assert run_virtually(steps()) < 100  # 30 replies, of 300 requests at a rate of 0.9


def test_rare_refusals_by_chance_do_not_slow_the_requests_down():
    # About 20 refusals hold all for 1 s each, and 64 in flight would need 6 s. Taken for a limit, they cost 800 s.
    by_chance = SimulatedEndpoint(refuse_rate=0.01, tells="never", retry_after_s=1.0)
    endpoint, took_s = ask_simulated(lambda: by_chance, 2_000)
    assert len(endpoint.refused_at) > 10
    assert took_s < 160


@pytest.mark.parametrize(
    ("refuse_rate", "retry_after_s", "most_s"), [(0.1, 1.0, 320), (0.2, 1.0, 320), (0.1, None, 320)]
)
def test_one_refusal_in_ten_by_chance_is_no_limit(refuse_rate: float, retry_after_s: float | None, most_s: float):
    # 64 s at 32 in flight. Taken for a limit per minute, as 1 in 10 was, they cost 7 hours.
    async def steps() -> float:
        endpoint = SimulatedEndpoint(latency_s=1.0, refuse_rate=refuse_rate, tells="never", retry_after_s=retry_after_s)
        return await ask_through(Limiter(32, now=virtual_now), endpoint, 2_000)

    assert run_virtually(steps()) < most_s


@pytest.mark.parametrize(
    ("limit", "latency_s", "retry_after_s", "most_refused"),
    [
        ({"most_out": 1}, 3.0, 5.0, 0.3),
        ({"most_out": 1}, 3.0, 1.0, 0.3),
        ({"most_out": 1}, 10.0, None, 0.45),  # two are tried every 15 s, so about every second reply
        ({"per_minute": 60}, 3.0, 5.0, 0.3),
        ({"per_minute": 10, "burst_s": 60}, 1.0, 5.0, 0.2),
    ],
)
def test_a_low_limit_is_not_taken_for_chance(
    limit: dict[str, Any], latency_s: float, retry_after_s: float | None, most_refused: float
):
    endpoint, _ = ask_simulated(
        lambda: SimulatedEndpoint(latency_s=latency_s, tells="never", retry_after_s=retry_after_s, **limit), 150
    )
    assert endpoint.refused_rate <= most_refused


def test_every_second_request_refused_is_not_taken_for_chance():
    async def steps() -> int:
        limiter, most = Limiter(64, now=virtual_now), 0
        for number in range(200):
            async with limiter.slot(1.0):
                await asyncio.sleep(0.2)
                if number % 2:
                    limiter.note_rate_limit({}, 1.0, 0.2)
                else:
                    limiter.note_reply({}, 0.2)
            most = max(most, limiter.limit) if number > 60 else 0
        return most

    assert run_virtually(steps()) <= 2


def test_a_limit_that_comes_after_refusals_by_chance_is_still_found():
    endpoint = SimulatedEndpoint(refuse_rate=0.1, tells="never", retry_after_s=1.0)

    async def steps() -> float:
        limiter = Limiter(32, now=virtual_now)
        await ask_through(limiter, endpoint, 2_000)
        endpoint.refuse_rate, endpoint.per_minute, endpoint.statuses = 0.0, 600, []
        return await ask_through(limiter, endpoint, 2_000)

    took_s = run_virtually(steps())
    assert endpoint.refused_rate <= 0.1
    assert 2_000 / (10 * took_s) >= 0.8


def test_after_such_refusals_the_pace_is_free_again():
    endpoint = SimulatedEndpoint(refuse_rate=0.9, tells="never", retry_after_s=1.0)

    async def steps() -> float:
        limiter = Limiter(32, now=virtual_now)
        await ask_through(limiter, endpoint, 30, caller_count=30)
        endpoint.refuse_rate = 0.0
        return await ask_through(limiter, endpoint, 1_000, caller_count=32)

    assert run_virtually(steps()) < 60  # at least 17 replies a second, where 160 are possible

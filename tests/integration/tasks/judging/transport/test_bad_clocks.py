"""Being held off, and clocks that jump: how long is waited, over loopback and on a virtual clock."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.transport.connection import Connection, Failure
from gradebook.tasks.judging.transport.endpoint import request_body
from gradebook.tasks.judging.transport.limits import Limiter
from gradebook.tasks.judging.transport.retry_policy import wait_s
from tests.support.asked import CANARY, ask, journaled, make_question
from tests.support.loopback_judge import LoopbackJudge
from tests.support.virtual_time import run_virtually, virtual_now


def failure_of(judge: LoopbackJudge) -> Failure:
    settings, request = JudgeSettings(model="m", base_url=judge.base_url), make_question(0).request()

    async def send() -> Any:
        connection = Connection(settings, settings, CANARY)
        try:
            return await connection.send(request_body(settings, request, 0, 100))
        finally:
            await connection.close()

    failure = asyncio.run(send())
    assert isinstance(failure, Failure) and failure.is_rate_limit and failure.is_retried
    return failure


def held_s(failure: Failure) -> float:
    """How long a refusal holds back whoever asks next, on a virtual clock."""

    async def steps() -> float:
        limiter = Limiter(4, now=virtual_now)
        limiter.note_rate_limit(failure.headers or {}, failure.retry_after_s)
        async with limiter.slot(1):
            return virtual_now()

    return run_virtually(steps())


def in_s(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("retry_after", "least_s", "most_s"),
    [
        (None, 0.2, 0.5),
        ("120", 120, 121),
        ("86400", 120, 121),
        (60, 55, 61),  # a number stands for a date so many seconds from now; dates have whole seconds
        (86_400, 120, 121),
        (-60, 0, 0.5),
        ("-5", 0, 0.5),
        ("soon", 0.2, 0.5),
    ],
    ids=["none", "120", "a day", "date", "date far off", "date past", "negative", "words"],
)
def test_a_429_holds_back_as_long_as_it_says(
    judge: LoopbackJudge, retry_after: str | int | None, least_s: float, most_s: float
):
    judge.faults = ["429"]
    judge.retry_after = in_s(retry_after) if isinstance(retry_after, int) else retry_after
    failure = failure_of(judge)
    assert least_s <= held_s(failure) <= most_s
    again_s = wait_s(0, failure.retry_after_s, np.random.default_rng(0))
    assert (failure.retry_after_s or 0) <= again_s <= (failure.retry_after_s or 0) + 0.5


class JumpingClock(datetime):
    """A wall clock that is set to another year whenever somebody looks at it."""

    years: list[int]

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        cls.years.append(cls.years.pop(0))
        return datetime(cls.years[-1], 1, 1, tzinfo=tz)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[JumpingClock]:
    JumpingClock.years = [1970, 2100, 2020]
    monkeypatch.setattr("gradebook.tasks.judging.session.client.datetime", JumpingClock)
    monkeypatch.setattr("gradebook.tasks.judging.transport.retry_policy.datetime", JumpingClock)
    return JumpingClock


@pytest.mark.parametrize("year", [1970, 2100])
def test_a_date_to_wait_for_is_read_by_the_endpoints_clock(judge: LoopbackJudge, clock: type[JumpingClock], year: int):
    clock.years = [year]
    judge.faults, judge.retry_after = ["429"], in_s(5)
    assert 3 <= (failure_of(judge).retry_after_s or 0) <= 6


def test_a_clock_that_jumps_stops_nothing_and_hurries_nothing(
    judge: LoopbackJudge, tmp_path: Path, clock: type[JumpingClock]
):
    judge.faults = ["500", "429", "fine", "drop", "fine", "429"]
    answers = ask(judge, tmp_path, count=6, max_in_flight=2, max_attempts=6, patience_s=30)
    assert [answer.status for answer in answers] == ["scored"] * 6
    kept = journaled(tmp_path)
    assert {when.year for when in kept["asked_at"].to_pylist()} <= {*clock.years}
    assert min(kept["latency_ms"].to_pylist()) > 0

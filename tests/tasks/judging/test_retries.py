"""Waiting: who is asked again, and when."""

from datetime import UTC, datetime

import numpy as np
import pytest

from tasks.judging.retries import is_retried, retry_after_s, wait_s

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:07 GMT"}, 7.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0.0),  # past
        ({"retry-after": "86400"}, 120.0),  # capped
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], expected_s: float | None):
    assert retry_after_s(headers, NOW) == expected_s


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 599])
def test_what_may_pass_is_retried(status: int):
    assert is_retried(status)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_will_not_pass_is_final(status: int):
    assert not is_retried(status)


def test_full_jitter_stays_below_twenty_seconds():
    rng = np.random.default_rng(1)
    assert all(0 <= wait_s(count, None, rng) <= 20 for count in range(1_000))


def test_a_wait_is_never_shorter_than_asked_for():
    rng = np.random.default_rng(1)
    assert all(3 <= wait_s(count, 3.0, rng) <= 3.5 for count in range(100))

"""Waiting: who is asked again, and when."""

from datetime import UTC, datetime

import numpy as np
import pytest

from gradebook.tasks.judging.transport.retry_policy import (
    RateLimit,
    is_retried,
    may_be_billed,
    read_rate_limit,
    retry_after_s,
    wait_s,
)
from tests.support.law_over import law_over

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@law_over(
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


@law_over(
    "text",
    [
        *(
            "inf",
            "-inf",
            "1e400",
            "1e3",
            "1_0",
            "٣",
            "",
            " ",
            "\0",
            "3\0",
            "1, 2",
            "[3]",
            "-",
            "9" * 5_000,
            "-" * 5_000,
        ),
        "Fri, 20 Nov 2026 99:00:07 GMT",
        "Fri, 20 Nov 99999 12:00:07 GMT",
        "Fri, 20 Nov 2026 12:00:07 +99999999999999",
    ],
)
def test_a_retry_after_that_is_neither_number_nor_date_says_nothing(text: str):
    assert retry_after_s({"retry-after": text, "retry-after-ms": text}, NOW) is None


@law_over(
    ("text", "expected_s"),
    [
        ("-1", 0.0),
        (" 5 ", 5.0),
        ("1.5", 1.5),
        ("9" * 40, 120.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 120.0),
        ("Fri, 31 Dec 9999 23:59:59 -1200", 120.0),
        ("Mon, 01 Jan 0001 00:00:00 +1400", 0.0),
        ("Friday, 20-Nov-26 12:00:07 GMT", 7.0),  # two-digit years, as in old servers
        ("Fri Nov 20 12:00:07 2026", 7.0),  # no time zone: UTC
    ],
)
def test_a_retry_after_at_the_edges_is_read_within_its_bounds(text: str, expected_s: float):
    assert retry_after_s({"retry-after": text}, NOW) == expected_s


def test_milliseconds_that_say_nothing_give_way_to_seconds():
    assert retry_after_s({"retry-after-ms": "soon", "retry-after": "3"}, NOW) == 3.0


def test_any_bytes_for_a_retry_after_are_borne():
    rng = np.random.default_rng(1)
    alphabet = list('Fri, 20 Nov 2026 12:00:07 GMT+-:;()"\\\0\t٣')
    for _ in range(1_000):
        asked_s = retry_after_s({"retry-after": "".join(rng.choice(alphabet, rng.integers(1, 35)))}, NOW)
        assert asked_s is None or 0 <= asked_s <= 120


@law_over("text", ["-1", "0", "nan", "inf", "1e3", "6_0", "600, 600", "9" * 12, "9" * 400, "", "many"])
def test_a_limit_that_is_no_limit_is_none(text: str):
    assert read_rate_limit({"x-ratelimit-limit-requests": text}, "requests") is None


@pytest.mark.parametrize(("text", "expected"), [("0", 0.0), ("12", 12.0), ("-1", None), ("nan", None), ("x", None)])
def test_what_remains_is_read_beside_the_limit(text: str, expected: float | None):
    headers = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": text}
    assert read_rate_limit(headers, "requests") == RateLimit(600.0, expected)


@law_over("status", [408, 409, 429, 500, 503, 599])
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


@law_over("status", [408, 409, 425, 451, 499, 500, 502, 503, 504, 529])
def test_a_failure_after_which_work_may_have_been_done_may_be_billed(status: int):
    assert may_be_billed(status)


def test_an_overload_of_anthropic_is_not_billed():
    assert not may_be_billed(529, "overloaded_error")
    assert may_be_billed(500, "overloaded_error")


@law_over("status", [400, 401, 403, 404, 413, 422, 429])
def test_a_refusal_before_work_is_not_billed(status: int):
    assert not may_be_billed(status)


def test_the_prompt_of_a_content_filter_may_be_billed():
    assert may_be_billed(400, "content_filter", None)
    assert may_be_billed(400, None, "content_policy_violation")
    assert not may_be_billed(400, "context_length_exceeded", ["content_filter"])

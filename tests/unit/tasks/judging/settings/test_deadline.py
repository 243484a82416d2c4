"""Deadlines as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.runs.request import read_deadline
from tests.support.law_over import law_over

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@law_over(
    ("text", "minutes"), [("6h", 360), ("90m", 90), ("1h30m", 90), ("2d", 2_880), ("30s", 0.5), (" 1h ", 60), ("0m", 0)]
)
def test_a_duration_counts_from_now(text: str, minutes: float):
    assert read_deadline(text, NOW) == NOW + timedelta(minutes=minutes)


def test_a_time_with_a_zone_is_that_time():
    assert read_deadline("2030-01-31T06:00+02:00", NOW) == datetime(2030, 1, 31, 4, tzinfo=UTC)


def test_a_time_without_a_zone_is_local():
    assert read_deadline("2030-01-31T06:00", NOW) == datetime(2030, 1, 31, 6).astimezone()


@law_over("text", ["", " ", "soon", "6", "6x", "h", "2030-13-01", "999999d999999h", "-6h", "9999999999d"])
def test_anything_else_is_refused_with_what_was_found(text: str):
    with pytest.raises(InputError, match="--deadline: found"):
        read_deadline(text, NOW.replace(year=9000))

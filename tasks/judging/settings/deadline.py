"""Deadline of a run: a time, or a duration from now."""

import re
from datetime import datetime, timedelta

from gradebook.rubrics.model.errors import InputError

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


def read_deadline(text: str, now: datetime) -> datetime:
    """Read a time (ISO 8601; local without a zone) or a duration from now, such as 6h or 1h30m.

    Past times are valid. Raises `InputError`.
    """
    try:
        duration = _DURATION.fullmatch(text.strip())
        if text.strip() and duration:
            days, hours, minutes, seconds = (int(number or 0) for number in duration.groups())
            return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo else time.astimezone()
    except (ValueError, OverflowError, OSError):  # raised for times near the last year
        raise InputError(
            "--deadline", f"{text!r}", "a time such as 2030-01-31T06:00 or a duration such as 6h or 90m"
        ) from None

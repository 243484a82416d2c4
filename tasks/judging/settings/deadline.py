"""When a run is to be done: a time, or so long from now."""

import re
from datetime import datetime, timedelta

from gradebook.rubrics.model.errors import InputError

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


def read_deadline(text: str, now: datetime) -> datetime:
    """Read a time (ISO 8601; local where it names no zone) or a duration from now, such as 6h or 1h30m.

    A time that has passed is one like any other. Raises `InputError`.
    """
    try:
        duration = _DURATION.fullmatch(text.strip())
        if text.strip() and duration:
            days, hours, minutes, seconds = (int(number or 0) for number in duration.groups())
            return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo else time.astimezone()
    except (ValueError, OverflowError, OSError):  # what a time near the end of all years raises
        raise InputError(
            "--deadline", f"{text!r}", "a time such as 2030-01-31T06:00 or a duration such as 6h or 90m"
        ) from None

"""When to ask again, and how long to wait before."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import numpy as np

BASE_WAIT_S = 0.5
MOST_WAIT_S = 20.0
MOST_RETRY_AFTER_S = 120.0
RATE_LIMIT_PATIENCE_S = 900.0  # being held off is no failure: a busy endpoint answers in the end
RETRIED_STATUSES = frozenset({408, 409, 429})


def is_retried(status: int) -> bool:
    """Whether an HTTP status may pass by itself."""
    return status in RETRIED_STATUSES or status >= 500


def wait_s(failure_count: int, retry_after_s: float | None, rng: np.random.Generator) -> float:
    """Draw how long to wait after that many failures of a call: full jitter, on top of what the endpoint asked for."""
    jitter_s: float = rng.uniform(0, min(MOST_WAIT_S, BASE_WAIT_S * 2 ** min(failure_count, 16)))
    return jitter_s if retry_after_s is None else retry_after_s + min(jitter_s, BASE_WAIT_S)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read how long an endpoint asks to wait, in seconds or as a date.

    Between 0 and 120 s; None where it does not say.
    """
    asked_s = _number(headers.get("retry-after-ms"), 1_000)
    if asked_s is None:
        asked_s = _number(headers.get("retry-after"), 1)
    if asked_s is None:
        asked_s = _until(headers.get("retry-after"), now)
    return None if asked_s is None else min(max(asked_s, 0.0), MOST_RETRY_AFTER_S)


def _number(text: str | None, scale: int) -> float | None:
    try:
        number = float(text or "") / scale
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(text: str | None, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()

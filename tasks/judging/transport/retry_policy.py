"""Retries: whether, and after how long, by the endpoint's headers. The headers are read as hostile."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import numpy as np

BASE_WAIT_S = 0.5
MOST_WAIT_S = 20.0
MOST_RETRY_AFTER_S = 120.0
RATE_LIMIT_PATIENCE_S = 900.0  # a rate limit is no failure: a busy endpoint answers eventually
OVERLOADED = (529, "overloaded_error")  # Anthropic's refusal before any work; of another the status may mean more
RETRIED_STATUSES = frozenset({408, 409, 429})
# Refusals before the model starts work. All other failures may be billed: a gateway's timeout often ends work that the
# model has done, and filters read the prompt with a model.
UNBILLED_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 421, 422, 429, 431})
FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})  # the prompt's content is refused

_MOST_LENGTH = 64  # no meaningful number or date is longer
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)  # float() also takes "inf", "1_0", "1e9", "٣"
_MOST_PER_MINUTE = 1e10  # more counts as no limit


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limit of requests or tokens per minute, as announced by an endpoint; None if not announced."""

    per_minute: float
    remaining: float | None


def is_retried(status: int) -> bool:
    """Whether an HTTP status may be temporary."""
    return status in RETRIED_STATUSES or status >= 500


def may_be_billed(status: int, *codes: object) -> bool:
    """Whether the provider may charge for a request that it answered with this HTTP status. codes: of its error."""
    is_overload = status == OVERLOADED[0] and OVERLOADED[1] in codes
    return is_filter(*codes) or not (status in UNBILLED_STATUSES or is_overload)


def is_filter(*codes: object) -> bool:
    """Whether an error names a content filter as its cause."""
    return any(isinstance(code, str) and code in FILTER_CODES for code in codes)


def wait_s(failure_count: int, retry_after_s: float | None, rng: np.random.Generator) -> float:
    """Draw the wait after this many failures of a call: full jitter, added to the endpoint's requested wait."""
    jitter_s: float = rng.uniform(0, min(MOST_WAIT_S, BASE_WAIT_S * 2 ** min(failure_count, 16)))
    return jitter_s if retry_after_s is None else retry_after_s + min(jitter_s, BASE_WAIT_S)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read the wait that an endpoint requests, in seconds or as a date.

    Between 0 and 120 s; None if it requests none.
    """
    asked_s = _number(headers.get("retry-after-ms"), 1_000)
    if asked_s is None:
        asked_s = _number(headers.get("retry-after"), 1)
    if asked_s is None:
        date = _date(headers.get("retry-after"))
        asked_s = None if date is None else (date - now).total_seconds()
    return None if asked_s is None else min(max(asked_s, 0.0), MOST_RETRY_AFTER_S)


def read_rate_limit(headers: Mapping[str, str], unit: str) -> RateLimit | None:
    """Read the x-ratelimit-* headers of a unit, "requests" or "tokens".

    None unless they name a limit: Azure sends -1 or 0 if it has none.
    """
    return limit_of(headers.get(f"x-ratelimit-limit-{unit}"), headers.get(f"x-ratelimit-remaining-{unit}"))


def limit_of(limit: str | None, remaining: str | None) -> RateLimit | None:
    """Limit by the texts of its headers; None unless it is one."""
    per_minute, remaining_count = _number(limit, 1), _number(remaining, 1)
    if per_minute is None or not 0 < per_minute <= _MOST_PER_MINUTE:
        return None
    return RateLimit(per_minute, remaining_count if remaining_count is not None and remaining_count >= 0 else None)


def endpoint_time(headers: Mapping[str, str]) -> datetime:
    """Current time by the endpoint's clock, for reading its dates; by our clock if it sends no date."""
    return _date(headers.get("date")) or datetime.now(UTC)


def _short(text: str | None) -> str:
    """Stripped text; empty if too long to be meaningful."""
    return "" if text is None or len(text) > _MOST_LENGTH else text.strip()


def _number(text: str | None, scale: int) -> float | None:
    text = _short(text)
    return float(text) / scale if _NUMBER.fullmatch(text) else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(_short(text))
    except (ValueError, TypeError, OverflowError, IndexError):  # the standard parser raises these for unforeseen texts
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)

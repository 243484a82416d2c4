"""Times, counts and texts of a trace, or what is wrong with them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from gradebook.rubrics.model.outputs import describe_value
from gradebook.tasks.datasets.decompression import value_fault
from gradebook.tasks.datasets.file_formats import Notes, load_json

_NANOSECONDS = 1_000_000_000
MOST_ID_CHARACTERS = 1_000
MOST_DECODED = 100_000  # values of a JSON text that is read as such
_MOST_WRAPS = 20  # objects of a response that are searched for its usage
_USAGES = ("usage", "usage_metadata", "usageMetadata", "token_usage")
_TOTAL = ("total", "total_tokens", "totalTokens", "total_token_count", "totalTokenCount")
_IN = ("input", "input_tokens", "inputTokens", "prompt_tokens", "promptTokens", "prompt_token_count")
_OUT = ("output", "output_tokens", "outputTokens", "completion_tokens", "completionTokens", "candidates_token_count")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NANOSECOND = 253_402_300_799 * _NANOSECONDS  # of the year 9999


class MisfitError(ValueError):
    """A part of a trace that can't be read: its text says what was found and expected."""


def raise_misfit(name: str, value: object, expected: str) -> NoReturn:
    """Raise the `MisfitError` of one field."""
    raise MisfitError(f"{name}: found {describe_value(value)}, expected {expected}")


def object_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; other values have none."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def entries_of(name: str, value: Any) -> Iterator[dict[str, Any] | str]:
    """The objects of a list, and what is wrong with other entries, or with a value that is no list."""
    if not isinstance(value, list):
        yield f"{name}: found {describe_value(value)}, expected a list of objects"
        return
    for entry in value:
        yield entry if isinstance(entry, dict) else f"{name}: found {describe_value(entry)}, expected an object"


def text_of(value: Any) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def first_of(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Value of the first of these names that is there and not null."""
    for name in names:  # a generator would take twice as long, and each span asks a dozen times
        if (value := fields.get(name)) is not None:
            return value
    return None


def id_of(name: str, value: Any) -> str:
    """An id. Raises `MisfitError` where it is none, or too long for one."""
    text = text_of(value) or raise_misfit(name, value, "an id")
    if len(text) > MOST_ID_CHARACTERS:
        raise_misfit(name, value, f"an id of at most {MOST_ID_CHARACTERS:,} characters")
    return text


def short_of(value: Any) -> str | None:
    """A text that is not empty and no longer than an id, else None."""
    text = text_of(value)
    return None if text is None or len(text) > MOST_ID_CHARACTERS else text


def nanoseconds_of(name: str, value: Any) -> int | None:
    """Nanoseconds since 1970 from a number of them or from a time in ISO 8601; without a zone it is UTC."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and not (value.isdecimal() and value.isascii()):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise_misfit(name, value, "a time in ISO 8601")
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        since = moment - _EPOCH
        nanoseconds = (since.days * 86_400 + since.seconds) * _NANOSECONDS + since.microseconds * 1_000
        if not 0 <= nanoseconds <= _LAST_NANOSECOND:
            raise_misfit(name, value, "a time from 1970 to 9999")
        return nanoseconds
    count = count_of(name, value)
    if count is not None and count > _LAST_NANOSECOND:
        raise_misfit(name, value, "nanoseconds since 1970")
    return count or None


def count_of(name: str, value: Any) -> int | None:
    """A whole number of 0 or more, also as a text. Raises `MisfitError` for another value."""
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise_misfit(name, value, "a whole number, 0 or more")
    return value


def amount_of(name: str, value: Any) -> float | None:
    """A number of 0 or more, also as a text. Raises `MisfitError` for another value."""
    if value is None:
        return None
    try:
        amount = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        raise_misfit(name, value, "a number, 0 or more")
    if not 0 <= amount < float("inf"):
        raise_misfit(name, value, "a number, 0 or more")
    return amount


def sum_of(*counts: int | None) -> int | None:
    """Sum of the counts that are there; None without any."""
    present = [count for count in counts if count is not None]
    return sum(present) if present else None


def tokens_of(name: str, usage: Any) -> int | None:
    """Tokens of a request by its usage, as Langfuse, OpenAI, Anthropic, Gemini and LangChain name them: the total, else
    what went in and what came out. None where all are 0, which is how some write that they do not know.
    """
    fields = object_of(usage)
    total = count_of(name, first_of(fields, _TOTAL))
    return total or sum_of(count_of(name, first_of(fields, _IN)), count_of(name, first_of(fields, _OUT))) or None


def usage_in(output: Any) -> dict[str, Any]:
    """Usage that a model's response states itself, also within the messages that LangChain wraps around it."""
    waiting, seen_count = [object_of(output)], 0
    while waiting and seen_count < _MOST_WRAPS:
        fields = waiting.pop(0)
        if usage := next((entry for name in _USAGES if (entry := object_of(fields.get(name)))), None):
            return usage
        generations = fields.get("generations")
        batch = generations[0] if isinstance(generations, list) and generations else None
        inner = [fields.get(name) for name in ("llm_output", "message", "kwargs", "response_metadata")]
        waiting += objects_of([*inner, *(batch if isinstance(batch, list) else [batch])])
        seen_count += 1
    return {}


def error_of(*texts: Any) -> str:
    """The first text that says what went wrong; "failed" without one."""
    return next(filter(None, map(text_of, texts)), "failed")


def timing(started: int | None, ended: int | None) -> dict[str, Any]:
    """Fields of a step from its nanoseconds since 1970. An end before the beginning gives no latency."""
    fields: dict[str, Any] = {}
    if started is not None:
        fields["started_at"] = _EPOCH + timedelta(microseconds=started // 1_000)
        if ended is not None and ended >= started:
            fields["latency_ms"] = (ended - started) / 1e6
    return fields


def decoded(value: Any) -> Any:
    """Value of a JSON text; a text that is no JSON, and other values, as they are."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
        return value
    if len(value) > MOST_DECODED and value_fault(value.encode(errors="replace"), MOST_DECODED) is not None:
        return value
    try:
        return load_json(value, Notes())
    except json.JSONDecodeError:
        return value

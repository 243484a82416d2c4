"""Tool calls in a row's metadata: their location, their names and their success."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradebook.rubrics.check_kit.json_text import NotJson, parse_json

SUCCESSES = (
    "ok",
    "true",
    "success",
    "succeeded",
    "successful",
    "completed",
    "complete",
    "done",
    "finished",
    "created",
    "confirmed",
)
NAME_KEYS = ("name", "tool", "tool_name", "function")
ANSWER_KEYS = ("result", "response", "output", "content")
STATUS_KEYS = ("status", "status_code")
HTTP_SUCCESS = re.compile("2[0-9]{2}(?: [a-z ]*)?")


def calls_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the calls at the path. Each key is looked up in every entry of a list; a single call counts as a list of
    one.
    """
    found = [value]
    for key in path.split("."):
        entries = [entry for level in found for entry in (level if isinstance(level, list) else [level])]
        found = [entry[key] for entry in entries if isinstance(entry, dict) and key in entry]
    for level in found:
        yield from level if isinstance(level, list) else [level]


def name_of(call: Any) -> str | None:
    """Name of the called tool."""
    if not isinstance(call, dict):
        return call if isinstance(call, str) else None
    for key in NAME_KEYS:
        value = call.get(key)
        if isinstance(value, dict):
            value = value.get("name")
        if isinstance(value, str):
            return value
    return None


def went_well(call: Any, successes: Sequence[str]) -> bool:
    """Whether neither the call nor its answer reports a failure."""
    if not isinstance(call, dict):
        return True
    answers = [answer for key in ANSWER_KEYS if isinstance(answer := _read_answer(call.get(key)), dict)]
    return not any(_says_failure(part, successes) for part in (call, *answers))


def _read_answer(answer: Any) -> Any:
    """Answer of a tool; an answer stored as JSON text is parsed."""
    try:
        return parse_json(answer) if isinstance(answer, str) and answer.lstrip().startswith("{") else answer
    except NotJson:
        return answer


def _says_failure(part: Mapping[str, Any], successes: Sequence[str]) -> bool:
    is_refused = any(str(part.get(key)).lower() in ("false", "0") for key in ("ok", "success"))
    has_error = any(part.get(key) not in (None, False, "", [], {}) for key in ("error", "errors"))
    is_error = any(part.get(key) is True for key in ("is_error", "isError"))
    statuses = [str(part[key]).casefold() for key in STATUS_KEYS if part.get(key) is not None]
    good = {success.casefold() for success in successes}
    has_bad_status = any(status not in good and not HTTP_SUCCESS.fullmatch(status) for status in statuses)
    return is_refused or has_error or is_error or has_bad_status

"""Replies that can't be read: their description for an error or a note, with the setting that may help."""

import re

UNREADABLE = frozenset({"parse_error", "truncated"})
MOST_SHOWN = 120  # characters of a reply
_PAGE = re.compile(r"\s*<(!doctype html|html)\b", re.IGNORECASE)
_STREAM = re.compile(r"\s*(event:|data:\s*\{)")


def is_page(text: str) -> bool:
    """Whether a text is a page of HTML, such as of a gateway or a login."""
    return _PAGE.match(text) is not None


def describe_unreadable(reply: str | None, status: str, found: str | None) -> str:
    """Beginning of an unreadable reply on one line, what it was found to be, and what to set.

    reply: without the endpoint's key.
    """
    reply = reply or ""
    begin = " ".join(reply[: 10 * MOST_SHOWN].split())
    shown = repr(begin if len(begin) <= MOST_SHOWN else begin[:MOST_SHOWN] + "...") if begin else "an empty text"
    if is_page(reply):
        return f"a page of HTML, {shown}; expected a chat completion: set `base_url` to the API's address, often .../v1"
    if _STREAM.match(reply):
        return (
            f"a stream of events, {shown}; expected a whole reply: no stream is asked for, turn it off at the endpoint"
        )
    if status == "truncated":
        room = "" if begin else "; a model that reasons first may need 8192"
        return f"cut off at its token limit, {shown}; expected a whole reply: set a larger `max_tokens`{room}"
    why = "" if found is None else f" ({found})"
    return (
        f"{shown}{why}; expected one JSON object with the keys asked for: set another `model`, or a `base_url` whose "
        "server supports structured output (`response_format`)"
    )

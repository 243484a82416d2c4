"""Redaction of an endpoint's key from its replies, in any notation; the reason that an error's body names."""

import os
import re
from typing import Self

from gradebook.rubrics.prompts.reply_parser import clean_text
from gradebook.tasks.judging.replies.unreadable import is_page
from gradebook.tasks.judging.settings.judge import Address
from gradebook.tasks.judging.settings.keys import header_secrets

MASK = "[key]"
MOST_MESSAGE_LENGTH = 300
_REASONS = ("message", "detail", "error", "msg", "errors")  # names of the reason in bodies of common servers
_PARTS = re.compile(r"\\+|[^\\]")
SHORTEST_SECRET = 8  # shorter keys occur in ordinary words by chance


class KeyMask:
    """Removes keys from texts: as they are, and with letters escaped as in JSON (\\u002d, \\/), also nested.

    Letters may be separated by NULs, plain (as in UTF-16) or escaped: readers of a reply remove NULs later.
    """

    def __init__(self, *keys: str) -> None:
        """keys: those shorter than 8 characters are ignored."""
        self._keys = [key for key in dict.fromkeys(keys) if len(key) >= SHORTEST_SECRET]
        pattern = "|".join(map(_written_ways, self._keys))
        self._pattern = re.compile(pattern)
        self._bytes_pattern = re.compile(pattern.encode())

    @classmethod
    def of(cls, address: Address, *keys: str) -> Self:
        """Mask of the keys of an address, and of the secrets in its headers."""
        return cls(*keys, *header_secrets(address, os.environ))

    def text(self, text: str) -> str:
        """Storable text without the key. Every text of an endpoint goes through here: cleaned first, then masked."""
        text = clean_text(text)
        if not self._keys:
            return text
        plain = text
        for key in self._keys:
            plain = plain.replace(key, MASK)
        return self._pattern.sub(MASK, plain) if "\\" in plain else plain

    def status_text(self, status: int | str, body: object) -> str:
        """Status of an error and the reason in its body, on one line, without the key. body: as openai parses it."""
        reason = "a page of HTML" if isinstance(body, str) and is_page(body) else _reason(body)
        return self.line(f"HTTP {status}" + (f": {reason}" if reason else ""))

    def line(self, text: str) -> str:
        """Text on one line, at most 300 characters, without the key."""
        return " ".join(self.text(text).split())[:MOST_MESSAGE_LENGTH]

    def content(self, content: bytes) -> bytes:
        """Bytes of a text that is still to be parsed, without the key."""
        if not self._keys:
            return content
        plain = content
        for key in self._keys:
            plain = plain.replace(key.encode(), MASK.encode())
        return self._bytes_pattern.sub(MASK.encode(), plain) if b"\\" in plain or b"\x00" in plain else plain


def _reason(body: object) -> str | None:
    """First text that an error's body has under a usual name; the body itself if it is a text."""
    while not isinstance(body, str):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict):
            body = next((body[name] for name in _REASONS if body.get(name)), None)
        else:
            return None
    return body


def _written_ways(key: str) -> str:
    """Pattern of a key with each letter plain or escaped; a text in a text has more backslashes.

    A run of backslashes is read whole and once, from its start: texts may have a million of them.
    """
    parts = _PARTS.findall(key)
    befores = [None, *parts]
    return "".join(_written_part(part, before) for part, before in zip(parts, befores, strict=False))


def _written_part(part: str, before: str | None) -> str:
    """Pattern of a letter, or of a run of backslashes, after a part that has consumed its own trailing backslashes."""
    run = r"(?<!\\)\\++" if before is None else r"\\++"
    if part[0] == "\\":  # NULs between its backslashes belong to it
        escape = r"(?:u0000|u00(?i:5c))?"
        return rf"(?:\x00|{run}{escape})(?:\x00|\\++{escape})*+" if before else rf"{run}{escape}(?:\x00|\\++{escape})*+"
    maybe_run = rf"(?:{run})?"
    own = (maybe_run if part in '"/' else "") + re.escape(part)
    escaped = maybe_run if before is not None and before[0] == "\\" else run
    gap = "" if before is None else rf"(?:\x00|{escaped}u0000)*+"
    return rf"{gap}(?:{own}|{escaped}u00(?i:{ord(part):02x}))"

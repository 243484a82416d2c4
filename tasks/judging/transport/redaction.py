"""Redaction of an endpoint's key from its replies, in any notation; the reason that an error's body names."""

import os
import re
from typing import Self

from gradebook.rubrics.prompts.reply_parser import clean_text
from gradebook.tasks.judging.replies.completion import is_page
from gradebook.tasks.judging.settings.keys import header_secrets
from gradebook.tasks.judging.settings.model import Address

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
        """keys: ignored if shorter than 8 characters."""
        self._keys = [key for key in dict.fromkeys(keys) if len(key) >= SHORTEST_SECRET]
        # A run of NULs is read once: a key that begins with 0 would begin at the end of each escape in it.
        pattern = "|".join([*map(_written_ways, self._keys), r"(?P<nuls>(?:\x00|(?<!\\)\\++u0000)++)"])
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
        return self._pattern.sub(lambda match: match["nuls"] or MASK, plain) if "\\" in plain else plain

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
        if b"\\" not in plain and b"\x00" not in plain:
            return plain
        return self._bytes_pattern.sub(lambda match: match["nuls"] or MASK.encode(), plain)


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
    return "".join(_written_part(part, before) for part, before in zip(parts, [None, *parts], strict=False))


def _written_part(part: str, before: str | None) -> str:
    """Pattern of a letter, or of a run of backslashes, which is read with the backslash of an escape after it."""
    if part[0] == "\\":
        run = r"\\++(?:u0000|u00(?i:5c))?"
        return rf"(?<!\\){run}(?:\x00|{run})*+" if before is None else rf"(?:\x00|{run})++"
    nul = r"\\*+u0000" if before is not None and before[0] == "\\" else r"\\++u0000"
    start = r"(?:(?<!\\)\\++)?" if before is None else rf"(?:\x00|{nul})*+\\*+"
    return rf"{start}(?:{re.escape(part)}|u00(?i:{ord(part):02x}))"

"""Redaction of an endpoint's key from its replies, in any notation."""

import re

MASK = "[key]"
_PARTS = re.compile(r"\\+|[^\\]")
SHORTEST_SECRET = 8  # shorter keys occur in ordinary words by chance


class KeyMask:
    """Removes one key from texts: as it is, and with letters escaped as in JSON (\\u002d, \\/), also nested."""

    def __init__(self, key: str) -> None:
        """key: ignored if shorter than 8 characters."""
        self._key = key if len(key) >= SHORTEST_SECRET else None
        pattern = _written_ways(key)
        self._pattern = re.compile(pattern)
        self._bytes_pattern = re.compile(pattern.encode())

    def text(self, text: str) -> str:
        """Text without the key."""
        if self._key is None:
            return text
        plain = text.replace(self._key, MASK)
        return self._pattern.sub(MASK, plain) if "\\" in plain else plain

    def content(self, content: bytes) -> bytes:
        """UTF-8 bytes of a text, without the key."""
        if self._key is None:
            return content
        plain = content.replace(self._key.encode(), MASK.encode())
        return self._bytes_pattern.sub(MASK.encode(), plain) if b"\\" in plain else plain


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
    if part[0] == "\\":
        return rf"(?:{run}(?:u00(?i:5c))?)(?:\\++(?:u00(?i:5c))?)*+"
    maybe_run = rf"(?:{run})?"
    own = (maybe_run if part in '"/' else "") + re.escape(part)
    escaped = maybe_run if before is not None and before[0] == "\\" else run
    return rf"(?:{own}|{escaped}u00(?i:{ord(part):02x}))"

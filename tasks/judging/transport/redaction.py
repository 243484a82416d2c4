"""The key of an endpoint struck out of whatever the endpoint says, however that writes it."""

import re

MASK = "[key]"
_PARTS = re.compile(r"\\+|[^\\]")
SHORTEST_SECRET = 8  # anything shorter would be struck out of words where it stands by chance


class KeyMask:
    """Strikes one key out of texts: as it is, and with letters written as JSON may (\\u002d, \\/), JSON in JSON too."""

    def __init__(self, key: str) -> None:
        """key: one shorter than 8 letters is left where it stands."""
        self._key = key if len(key) >= SHORTEST_SECRET else None
        pattern = _written_ways(key)
        self._pattern = re.compile(pattern)
        self._bytes_pattern = re.compile(pattern.encode())

    def text(self, text: str) -> str:
        """The text without the key."""
        if self._key is None:
            return text
        plain = text.replace(self._key, MASK)
        return self._pattern.sub(MASK, plain) if "\\" in plain else plain

    def content(self, content: bytes) -> bytes:
        """The bytes of a text in UTF-8, without the key."""
        if self._key is None:
            return content
        plain = content.replace(self._key.encode(), MASK.encode())
        return self._bytes_pattern.sub(MASK.encode(), plain) if b"\\" in plain else plain


def _written_ways(key: str) -> str:
    """A pattern of a key, each letter itself or escaped; a text in a text has as many more backslashes.

    A run of backslashes is read whole and once, from where it begins: texts may hold a million of them.
    """
    parts = _PARTS.findall(key)
    befores = [None, *parts]
    return "".join(_written_part(part, before) for part, before in zip(parts, befores, strict=False))


def _written_part(part: str, before: str | None) -> str:
    """A letter, or some backslashes in a row, after a part that has taken all backslashes it ends with."""
    run = r"(?<!\\)\\++" if before is None else r"\\++"
    if part[0] == "\\":
        return rf"(?:{run}(?:u00(?i:5c))?)(?:\\++(?:u00(?i:5c))?)*+"
    maybe_run = rf"(?:{run})?"
    own = (maybe_run if part in '"/' else "") + re.escape(part)
    escaped = maybe_run if before is not None and before[0] == "\\" else run
    return rf"(?:{own}|{escaped}u00(?i:{ord(part):02x}))"

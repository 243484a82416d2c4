"""The key of an endpoint struck out of whatever the endpoint says, however that writes it."""

import re

MASK = "[key]"
SHORTEST_SECRET = 8  # anything shorter would be struck out of words where it stands by chance


class KeyMask:
    """Strikes one key out of texts: as it is, and with letters written as JSON may (\\u002d, \\/), JSON in JSON too."""

    def __init__(self, key: str) -> None:
        """key: one shorter than 8 letters is left where it stands."""
        self._key = key if len(key) >= SHORTEST_SECRET else None
        pattern = "".join(map(_written_ways, key))
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


def _written_ways(letter: str) -> str:
    """A pattern of a letter, itself or escaped; a text in a text has as many more backslashes."""
    own = rf"\\*{re.escape(letter)}" if letter in '"/\\' else re.escape(letter)
    return rf"(?:{own}|\\+u00(?i:{ord(letter):02x}))"

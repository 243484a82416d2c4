"""How far broken JSON reaches, so that what stands in it is not taken for JSON of its own."""

import re

SPACES = r"[ \t\r\n]*+"
OPEN_STRING = r'"(?:[^"\\\n]++|\\.)*+'  # up to the quotation mark that ends it, or the end of its line
BEGUN = re.compile(rf'(?:\[{SPACES})*+\{{{SPACES}{OPEN_STRING}"{SPACES}:')
TOKEN = re.compile(rf'{OPEN_STRING}"?|[{{}}\[\]]|^ {{0,3}}```', re.MULTILINE)


class BrokenJson:
    """What is broken in a text; its brackets are looked at when the first of it is found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] | None = None

    def end(self, start: int, fault: int) -> int:
        """Where broken JSON ends: after the bracket that closes it, and without one at the end of its code fence or of
        the text. What does not begin as an object with a key ends where its fault is.

        The calls for a text come with ascending starts.
        """
        if BEGUN.match(self._text, start) is None:
            return fault
        if self._ends is None:
            self._ends = _bracket_ends(self._text, start)
        return max(self._ends.get(start, fault), fault)


def _bracket_ends(text: str, start: int) -> dict[int, int]:
    """For the place of each opening bracket outside strings, where what it opens ends."""
    ends: dict[int, int] = {}
    open_places: list[int] = []
    for token in TOKEN.finditer(text, start):
        mark = token[0]
        if mark in "{[":
            open_places.append(token.start())
        elif mark in "}]":
            if open_places:
                ends[open_places.pop()] = token.end()
        elif not mark.startswith('"'):
            ends |= dict.fromkeys(open_places, token.start())
            open_places.clear()
    return ends | dict.fromkeys(open_places, len(text))

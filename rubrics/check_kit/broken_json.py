"""Extent of broken JSON, so that its fragments are not read as JSON of their own."""

import re

SPACES = r"[ \t\r\n]*+"
OPEN_STRING = r'"(?:[^"\\\n]++|\\.)*+'  # up to its closing quotation mark or the end of the line
BEGUN = re.compile(rf'(?:\[{SPACES})*+\{{{SPACES}{OPEN_STRING}"{SPACES}:')
TOKEN = re.compile(rf'{OPEN_STRING}"?|[{{}}\[\]]|^ {{0,3}}```', re.MULTILINE)


class BrokenJson:
    """Broken JSON of one text. Brackets are scanned on first use."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] | None = None

    def end(self, start: int, fault: int) -> int:
        """End of the broken JSON that starts at `start`.

        That is the closing bracket; without one, the end of the code fence or of the text. If the text at `start` is
        not the beginning of an object with a key, it ends at `fault`. Calls for one text must have ascending starts.
        """
        if BEGUN.match(self._text, start) is None:
            return fault
        if self._ends is None:
            self._ends = _bracket_ends(self._text, start)
        return max(self._ends.get(start, fault), fault)


def _bracket_ends(text: str, start: int) -> dict[int, int]:
    """Map the place of each opening bracket outside strings to the end of its content."""
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

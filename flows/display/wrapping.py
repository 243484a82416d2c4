"""Sentences in lines as wide as a terminal: broken between words, never within a command in backticks."""

import re

from rich.cells import cell_len
from rich.text import Text

_PIECE = re.compile(r"(?:`[^`]*`|\S)+\s*")  # a word, or what stands between backticks, with the spaces after it
_HEAD = re.compile(r"^ *(?:- |\S+ {2,})?")  # indent of a line with the mark of a list, or with a first column


def filled(text: Text, width: int) -> Text:
    """Break lines that are longer than width; each goes on below its first word, after a mark of a list or a column.

    A piece without a space, and a command in backticks, that is longer than a line sticks out of it.
    """
    lines = []
    for line in text.split("\n", allow_blank=True):
        indent = len(line) - len(_HEAD.sub("", line.plain))
        first, *others = line.divide(_breaks(line.plain, indent, width))
        lines += [first, *(Text.assemble(" " * indent, other) for other in others)]
        for each in lines[-1 - len(others) : -1]:
            each.rstrip()
    return Text("\n").join(lines)


def _breaks(line: str, indent: int, width: int) -> list[int]:
    """Offsets at which a line is broken."""
    offsets, used = [], indent
    for piece in _PIECE.finditer(line, indent):
        if used > indent and used + cell_len(piece[0].rstrip()) > width:
            offsets.append(piece.start())
            used = indent
        used += cell_len(piece[0])
    return offsets

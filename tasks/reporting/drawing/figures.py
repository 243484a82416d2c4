"""What a page is made of: pictures with what they say, and tables."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from markupsafe import Markup

ANCHOR_LETTERS = 12
_OUTPUT_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table on a page; numbers stand to the right."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table on a page. rows: a text a column each, as people read it; flagged: the places of those of bad news."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    flagged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture on a page. id: its anchor; title: what it shows; reading: what it says, in a sentence of its numbers.

    svg: drawn by `draw`, nobody else's markup; table: the numbers that it was drawn from.
    """

    id: str
    title: str
    reading: str
    svg: Markup
    table: Table

    @property
    def alternative(self) -> str:
        """What stands for the picture where it can't be seen."""
        return f"{self.title}. {self.reading}"


def table_of(
    caption: str,
    words: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    flagged: Iterable[int] = (),
) -> Table:
    """A table whose first columns are words and whose others are numbers; rows: a text a column."""
    columns = (*(Column(heading) for heading in words), *(Column(heading, is_number=True) for heading in numbers))
    return Table(caption, columns, tuple(tuple(row) for row in rows), frozenset(flagged))


def anchor_of(output_id: str) -> str:
    """What a link calls an output: the beginning of its id, which of ids that others made may not be its own."""
    is_hash = _OUTPUT_ID.fullmatch(output_id) is not None
    return (output_id if is_hash else blake2b(output_id.encode()).hexdigest())[:ANCHOR_LETTERS]

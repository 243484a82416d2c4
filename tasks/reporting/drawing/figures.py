"""Parts of a page: tables, and pictures with their sentences."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from markupsafe import Markup

ANCHOR_LETTERS = 12
_OUTPUT_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table; numbers are right-aligned."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Table on a page. rows: one text per column; flagged: indexes of the rows marked as bad."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    flagged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Figure:
    """Picture on a page. id: anchor; reading: sentences with its main figures; table: the numbers drawn.

    svg: made by `draw`, so it contains no markup from inputs.
    """

    id: str
    title: str
    reading: str
    svg: Markup
    table: Table

    @property
    def alternative(self) -> str:
        """Text alternative for readers who can't see the picture."""
        return f"{self.title}. {self.reading}"


def table_of(
    caption: str,
    words: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    flagged: Iterable[int] = (),
) -> Table:
    """Table with columns of words, then columns of numbers. rows: one text per column."""
    columns = (*(Column(heading) for heading in words), *(Column(heading, is_number=True) for heading in numbers))
    return Table(caption, columns, tuple(tuple(row) for row in rows), frozenset(flagged))


def anchor_of(output_id: str) -> str:
    """Anchor of an output: the beginning of its id; not unique among ids that gradebook did not make."""
    is_hash = _OUTPUT_ID.fullmatch(output_id) is not None
    return (output_id if is_hash else blake2b(output_id.encode()).hexdigest())[:ANCHOR_LETTERS]

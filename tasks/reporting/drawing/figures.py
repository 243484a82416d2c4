"""Pictures of a page with their sentences and tables."""

import re
from dataclasses import dataclass
from hashlib import blake2b

from markupsafe import Markup

from gradebook.rubrics.text.tables import Table

ANCHOR_LETTERS = 12
_OUTPUT_ID = re.compile("[0-9a-f]{32}")


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


def anchor_of(output_id: str) -> str:
    """Anchor of an output: the beginning of its id; not unique among ids that gradebook did not make."""
    is_hash = _OUTPUT_ID.fullmatch(output_id) is not None
    return (output_id if is_hash else blake2b(output_id.encode()).hexdigest())[:ANCHOR_LETTERS]

"""What there is to say of a run's trustworthiness: a sentence each, with a sign and what it rests on."""

from dataclasses import dataclass
from enum import StrEnum

from gradebook.tasks.reporting.drawing.figures import Table


class Sign(StrEnum):
    """How a finding stands; its value is the word that a page shows, the worst first."""

    BAD = "bad"
    LOOK = "look"
    FINE = "fine"


SYMBOLS = {Sign.BAD: "✗", Sign.LOOK: "!", Sign.FINE: "✓"}  # beside the words: colour is never the only sign


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that bears on trust. topic: what of; words: sentences with their numbers; table: behind a click."""

    sign: Sign
    topic: str
    words: str
    table: Table | None = None

    @property
    def symbol(self) -> str:
        """What stands before the sign's word."""
        return SYMBOLS[self.sign]

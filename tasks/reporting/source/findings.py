"""Findings on a run's trustworthiness: a sign, a sentence and a table each."""

from dataclasses import dataclass
from enum import StrEnum

from gradebook.rubrics.text.tables import Table


class Sign(StrEnum):
    """Severity of a finding, worst first; its value is the word on the page."""

    BAD = "bad"
    LOOK = "look"
    FINE = "fine"


SYMBOLS = {Sign.BAD: "✗", Sign.LOOK: "!", Sign.FINE: "✓"}  # shown with the word, so colour is never the only sign


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding on trust. words: sentences with their numbers; table: shown after a click."""

    sign: Sign
    topic: str
    words: str
    table: Table | None = None

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.sign]

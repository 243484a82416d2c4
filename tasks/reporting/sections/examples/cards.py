"""Steps of an agent as cards, with marked evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.marking import Segment, segments_of, visible

MOST_CARDS = 20  # from each end of a trajectory
MOST_CARD_TEXT = 800  # characters shown of an input, an output or an error
MOST_NAME = 80


@dataclass(frozen=True, slots=True)
class Card:
    """One step. title: its name; about: agent, time, tokens and cost; left_out: steps that this card replaces."""

    number: int
    kind: str
    title: str = ""
    about: str = ""
    given: tuple[Segment, ...] = ()
    made: tuple[Segment, ...] = ()
    error: tuple[Segment, ...] = ()
    left_out: int = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All texts of the card."""
        return (*self.given, *self.made, *self.error)


@dataclass(frozen=True, slots=True)
class StepCards:
    """Cards of an output. step_count, error_count: of all steps, also those that are not shown."""

    cards: tuple[Card, ...] = ()
    step_count: int = 0
    error_count: int = 0


def step_cards(rows: Sequence[Row], evidence: Iterable[tuple[str, str]]) -> StepCards:
    """Cards of the rows of example_steps of one output. evidence: criterion's name and quote."""
    if not rows:
        return StepCards()
    marked = list(evidence)
    cards: list[Card] = []
    for row in rows:
        if row["step_index"] > (cards[-1].number + 1 if cards else 0):
            missing = row["step_index"] - len(cards)
            cards.append(Card(row["step_index"] - 1, "", left_out=missing))
        cards.append(_card(row, marked))
    return StepCards(tuple(cards), rows[0]["step_count"], rows[0]["error_count"])


def _card(row: Row, evidence: Sequence[tuple[str, str]]) -> Card:
    def shown(text: str | None) -> tuple[Segment, ...]:
        return segments_of(text, evidence, most=MOST_CARD_TEXT) if text else ()

    return Card(
        row["step_index"],
        row["kind"],
        visible((row["name"] or "")[:MOST_NAME]),
        _about(row),
        shown(row["input"]),
        shown(row["output"]),
        shown(row["error"]),
    )


def _about(row: dict[str, Any]) -> str:
    parts = [
        visible((row["agent"] or "")[:MOST_NAME]),
        "" if row["latency_ms"] is None else f"{row['latency_ms'] / 1000:,.1f} s",
        "" if row["tokens"] is None else f"{row['tokens']:,} tokens",
        "" if row["cost_usd"] is None else f"${row['cost_usd']:.4f}",
    ]
    return " · ".join(part for part in parts if part)

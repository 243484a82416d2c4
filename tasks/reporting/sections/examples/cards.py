"""Steps of an agent as cards, with marked evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.marking import Segment, segments_of, visible
from gradebook.tasks.system.number_format import price_words

MOST_CARDS = 20  # from each end of a trajectory
MOST_CARD_TEXT = 800  # characters shown of an input, an output or an error
MOST_NAME = 80
MOST_MARKS = 12  # of a step
MOST_WHY = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class CardMark:
    """Mark that a judge or a rater gave a step. tone: good, partial or bad; error: type, subtype and severity."""

    tone: str
    label: str
    error: str
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Card:
    """One step. title: its name; about: agent, time, tokens and cost; left_out: steps that this card replaces.

    marks: by judges and people, at most `MOST_MARKS`; mark_count: of all; is_disputed: whether labels differ.
    """

    number: int
    kind: str
    title: str = ""
    about: str = ""
    given: tuple[Segment, ...] = ()
    made: tuple[Segment, ...] = ()
    error: tuple[Segment, ...] = ()
    left_out: int = 0
    marks: tuple[CardMark, ...] = ()
    mark_count: int = 0
    is_disputed: bool = False

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

    @property
    def disputed_count(self) -> int:
        """Cards with marks that differ."""
        return sum(card.is_disputed for card in self.cards)


def step_cards(rows: Sequence[Row], evidence: Iterable[tuple[str, str]], marks: Sequence[Row] = ()) -> StepCards:
    """Cards of the rows of example_steps of one output. evidence: criterion's name and quote; marks: its rows of
    example_step_marks.
    """
    if not rows:
        return StepCards()
    marked = list(evidence)
    has_criteria = len({mark["criterion_id"] for mark in marks}) > 1
    by_step: dict[int, list[Row]] = {}
    for mark in marks:
        by_step.setdefault(mark["step_index"], []).append(mark)
    cards: list[Card] = []
    for row in rows:
        if row["step_index"] > (cards[-1].number + 1 if cards else 0):
            missing = row["step_index"] - len(cards)
            cards.append(Card(row["step_index"] - 1, "", left_out=missing))
        of_step = by_step.get(row["step_index"], ())
        shown = tuple(_mark(mark, has_criteria=has_criteria) for mark in of_step[:MOST_MARKS])
        card = replace(_card(row, marked), marks=shown, mark_count=len(of_step), is_disputed=_is_disputed(of_step))
        cards.append(card)
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


def _is_disputed(marks: Sequence[Row]) -> bool:
    """Whether judges or people gave a step different labels on a criterion."""
    said = {(mark["criterion_id"], mark["label"]) for mark in marks if mark["score"] is not None}
    return len(said) > len({criterion_id for criterion_id, _ in said})


def _mark(row: Row, *, has_criteria: bool) -> CardMark:
    """A row of example_step_marks: kind 0 is a lead's decision, 1 the judge's verdict, 2 a vote, 3 a person's mark."""
    score, kind = row["score"], row["kind"]
    tone = "none" if score is None else "good" if score == 1 else "bad" if score == 0 else "partial"
    name = visible((row["who"] or "")[:MOST_NAME])
    who = ("settled by " + name, "judge", name, name)[kind]
    if has_criteria:
        who = f"{visible(row['criterion_id'])}, {who}"
    error = " / ".join(word for word in (row["error_type"], row["error_subtype"]) if word)
    named = ", ".join(visible(word[:MOST_NAME]) for word in (error, row["severity"]) if word)
    why = row["why"] or ""
    return CardMark(tone, visible(row["label"][:MOST_NAME]), named, who, visible(_clipped(why)))


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_WHY else f"{text[: MOST_WHY - 1]}…"


def _about(row: dict[str, Any]) -> str:
    parts = [
        visible((row["agent"] or "")[:MOST_NAME]),
        "" if row["latency_ms"] is None else f"{row['latency_ms'] / 1000:,.1f} s",
        "" if row["tokens"] is None else counted(row["tokens"], "token"),
        "" if row["cost_usd"] is None else price_words(row["cost_usd"]),
    ]
    return " · ".join(part for part in parts if part)

"""Signals of people in rows of outputs: a thumb, a rating, a choice or a note, read as good or bad."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

# Columns that may have a signal, the clearest first; one of them is read for a whole file.
SIGNAL_COLUMNS = (
    *("thumbs", "thumb", "thumbs_up", "feedback", "liked", "accepted", "preferred", "chosen", "is_good", "label"),
    *("verdict", "correct", "rating", "stars", "score"),
)
NOTE_COLUMNS = ("note", "notes", "comment", "comments", "complaint", "reason")
_GOOD = frozenset(
    {
        *("up", "thumbs_up", "thumbs-up", "good", "great", "like", "liked", "positive", "pass", "passed", "accept"),
        *("accepted", "yes", "true", "correct", "chosen", "preferred", "ok", "👍", "approved", "meets", "met"),
    }
)
_BAD = frozenset(
    {
        *(
            "down",
            "thumbs_down",
            "thumbs-down",
            "bad",
            "poor",
            "dislike",
            "disliked",
            "negative",
            "fail",
            "failed",
            "reject",
        ),
        *(
            "rejected",
            "no",
            "false",
            "incorrect",
            "wrong",
            "not_chosen",
            "👎",
            "needs_revision",
            "fails",
            "unmet",
            "not_met",
        ),
    }
)
MIDDLE = (1 / 3, 2 / 3)  # part of a scale of numbers that says neither

Signal = bool | float | None  # whether an output is bad, or a number on a scale whose range is not known yet


def signal_of(value: Any) -> Signal:
    """Signal of one value. True: a bad output; a number: to be read by the range of its column."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    word = value.strip().casefold().replace(" ", "_")
    if word in _GOOD or word in _BAD:
        return word in _BAD
    try:
        return float(word)
    except ValueError:
        return None


def marks_of(signals: Iterable[Signal], low: float | None = None, high: float | None = None) -> list[bool | None]:
    """Whether each output is bad; None where its signal says neither.

    A number counts by its place between the lowest and the highest, which are found where low and high are not given:
    the lower third is bad, the upper third good.
    """
    values = list(signals)
    numbers = [value for value in values if isinstance(value, float) and isfinite(value)]
    low = min(numbers, default=0.0) if low is None else low
    high = max(numbers, default=0.0) if high is None else high
    return [value if isinstance(value, bool) else _place_of(value, low, high) for value in values]


def _place_of(value: float | None, low: float, high: float) -> bool | None:
    if value is None or not (isfinite(value) and high > low):
        return None
    place = (value - low) / (high - low)
    return True if place <= MIDDLE[0] else False if place >= MIDDLE[1] else None


def note_of(columns: Mapping[str, Any]) -> str | None:
    """Note of a person in a row's further columns."""
    for name in NOTE_COLUMNS:
        value = columns.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None

"""Signals of people in rows of outputs: a thumb, a rating, a choice or a note, read as good or bad."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

# Columns that may have a signal, the clearest first; only one column of a file is read.
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
MIDDLE = (1 / 3, 2 / 3)  # part of a number scale that is neither bad nor good

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
    """Whether each output is bad; None if its signal is neither bad nor good.

    A number counts by its place between the lowest and the highest, those of the signals if low and high are None:
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
    position = (value - low) / (high - low)
    return True if position <= MIDDLE[0] else False if position >= MIDDLE[1] else None


def note_of(columns: Mapping[str, Any]) -> str | None:
    """Note of a person in a row's further columns."""
    for name in NOTE_COLUMNS:
        value = columns.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None

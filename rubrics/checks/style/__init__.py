"""Checks of how an output speaks: level, repetition, endings, refusals, tone."""

from gradebook.rubrics.checks.style import endings, readability, refusals, repetition, tone

MODULES = (
    readability,
    repetition,
    endings,
    refusals,
    tone,
)

__all__ = ["MODULES"]

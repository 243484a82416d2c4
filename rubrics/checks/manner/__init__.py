"""Checks of how an output speaks: level, repetition, endings, refusals, tone."""

from rubrics.checks.manner import endings, readability, refusals, repetition, tone

MODULES = (
    readability,
    repetition,
    endings,
    refusals,
    tone,
)

__all__ = ["MODULES"]

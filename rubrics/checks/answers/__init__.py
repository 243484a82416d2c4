"""Checks of an answer against the accepted ones."""

from gradebook.rubrics.checks.answers import choices, numeric, references, shared_words, translation

MODULES = (
    references,
    numeric,
    choices,
    shared_words,
    translation,
)

__all__ = ["MODULES"]

"""Checks of words, phrases and patterns."""

from gradebook.rubrics.checks.keywords import affixes, keywords, patterns

MODULES = (
    keywords,
    affixes,
    patterns,
)

__all__ = ["MODULES"]

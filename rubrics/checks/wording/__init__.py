"""Checks of words, phrases and patterns."""

from gradebook.rubrics.checks.wording import affixes, keywords, patterns

MODULES = (
    keywords,
    affixes,
    patterns,
)

__all__ = ["MODULES"]

"""Checks of the language and the script."""

from gradebook.rubrics.checks.language import languages

MODULES = (languages,)

__all__ = ["MODULES"]

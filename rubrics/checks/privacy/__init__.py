"""Checks for personal data and secrets."""

from gradebook.rubrics.checks.privacy import pii

MODULES = (pii,)

__all__ = ["MODULES"]

"""Checks of how an output speaks: level, repetition, endings, refusals, tone."""

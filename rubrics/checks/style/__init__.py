"""Checks of style: reading level, repetition, endings, refusals, tone. `phrases` has the phrase search."""

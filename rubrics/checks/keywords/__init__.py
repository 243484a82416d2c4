"""Checks of words, phrases and patterns."""

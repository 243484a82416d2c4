"""Checks of words, phrases and patterns. Text folding and whole-word search for other checks too."""

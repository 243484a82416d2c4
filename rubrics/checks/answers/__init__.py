"""Checks of an answer against accepted answers."""

"""Checks of an answer against the accepted ones."""

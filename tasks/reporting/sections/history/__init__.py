"""Scores of earlier runs over time."""

"""Checks for personal data and secrets."""

"""Checks of the language and the script."""

"""Checks of audio: its format, duration, loudness and defects."""

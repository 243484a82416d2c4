"""Checks of audio: its format, its length, its loudness and its faults."""

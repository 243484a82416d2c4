"""Checks of audio: its format, its length, its loudness and its faults."""

from gradebook.rubrics.checks.audio import fidelity, kind, loudness, timing

MODULES = (kind, timing, loudness, fidelity)

__all__ = ["MODULES"]

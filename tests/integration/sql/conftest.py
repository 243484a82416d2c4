"""Small runs given as plain values, for tests of the SQL models."""

from tests.support.given_marts import build, load, memory

__all__ = ["build", "load", "memory"]

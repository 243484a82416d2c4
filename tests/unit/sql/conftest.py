"""Runs of a few rows, given as plain values, for the tests of the SQL models."""

from tests.support.given_marts import build, load, memory

__all__ = ["build", "load", "memory"]

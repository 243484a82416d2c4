"""Deterministic checks, one package a family. `registry` finds a check by its name."""

"""Scoring a shard on a criterion, a module a method."""

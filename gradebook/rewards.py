"""Adapters of a `Scorer` for trainers: `from gradebook.rewards import verl`. TRL takes the `Scorer` as it is."""

from gradebook.tasks.rewards.trainers import openrlhf, slime, verifiers, verl

__all__ = ["openrlhf", "slime", "verifiers", "verl"]

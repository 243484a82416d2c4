"""Stages of a run and what they need: every side effect. Packages import down the list of docs/architecture.md."""

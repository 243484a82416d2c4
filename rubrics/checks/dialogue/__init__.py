"""Checks of task-oriented dialogue: slots, and claims that need a tool call."""

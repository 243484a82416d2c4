"""Checks of what a conversation has to settle: slots, and claims that need a tool call."""

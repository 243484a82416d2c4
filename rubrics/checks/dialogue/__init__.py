"""Checks of what a conversation has to settle: slots, and claims that need a tool call."""

from gradebook.rubrics.checks.dialogue import slots, tool_calls

MODULES = (
    slots,
    tool_calls,
)

__all__ = ["MODULES"]

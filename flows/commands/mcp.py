"""The command `gradebook lake mcp`: a lake for agents."""

import sys
from contextlib import suppress

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import stderr
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.serving.mcp_server import serve_mcp


def mcp(at: AtOption = None, lake: LakeOption = DEFAULT_LAKE, data: DataOption = None) -> None:
    """Serve a lake to agents over MCP on stdin and stdout, read only.

    Tools: list_runs, run_summary, compare_runs, failing_outputs and sql. Answers are capped, and texts in them are
    marked as data of others. The agent's client starts the command, and ends it by closing stdin.

    \b
    claude mcp add gradebook -- \\
        gradebook lake mcp --lake sqlite:lake/catalog.sqlite

    Exit: 0 ended, 2 bad input.
    """
    found_lake = read_lake(lake, data, at)
    with connect(found_lake, read_only=True):  # a missing lake ends the command, not each answer to the agent
        pass
    if sys.stdin.isatty():
        stderr.print("waiting for a client on stdin; Ctrl-D ends")
    with suppress(KeyboardInterrupt):
        serve_mcp(found_lake, sys.stdin.buffer, sys.stdout.buffer)

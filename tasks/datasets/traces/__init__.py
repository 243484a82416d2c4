"""From traces of agents to rows: one row for each run of an agent, with its steps.

formats      read_traces: a file's traces as rows, if it holds some
documents    read_documents, grouped: the JSON objects of a file; spans in any order, trace by trace
spans        Span, row_of_spans: a trace as a row
messages     chat_messages, row_of_talk: messages of all dialects as chat messages; a conversation as a row
fields       times, counts and texts of a trace, or what is wrong with them
otlp         OpenTelemetry's spans, in the four dialects of generative models, also as Tempo and others wrap them
langfuse     traces with observations, and observations alone
langsmith    runs
mlflow       traces
atif         trajectories of Harbor's agents
claude_code  sessions of Claude Code
codex        rollouts of Codex CLI
swe_agent    trajectories of SWE-agent and mini-SWE-agent
inspect_log  logs of Inspect: .eval and .json
"""

TRACE_FORMATS = ("otlp", "inspect", "atif", "langfuse", "langsmith", "mlflow", "claude-code", "codex", "swe-agent")
CHAT = "chat"  # rows with `messages`, all of them runs of agents
GIVEN_FORMATS = (CHAT, *TRACE_FORMATS)

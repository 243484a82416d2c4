"""Names of the formats of traces."""

TRACE_FORMATS = ("otlp", "inspect", "atif", "langfuse", "langsmith", "mlflow", "claude-code")
CHAT = "chat"  # rows with `messages`, all of them runs of agents
GIVEN_FORMATS = (CHAT, *TRACE_FORMATS)

"""From traces of agents to rows: one row for each run of an agent, with its steps.

formats      read_traces: a file's traces as rows, if it holds some
names        TRACE_FORMATS: names of the formats
documents    read_documents: the JSON objects of a file, one a line or in one document
grouping     grouped: spans that are strewn over a file, trace by trace in bounded memory
spans        Span, row_of_spans: a trace as a row
messages     chat_messages: messages of all dialects as chat messages
fields       times, counts and texts of a trace, or what is wrong with them
otlp         OpenTelemetry's spans, in the four dialects of generative models
wrappings    OpenTelemetry's spans as Tempo, Jaeger and Phoenix wrap them
langfuse     traces with observations, and observations alone
langsmith    runs
mlflow       traces
atif         trajectories of Harbor's agents
claude_code  sessions of Claude Code
inspect_log  logs of Inspect: .eval and .json
"""

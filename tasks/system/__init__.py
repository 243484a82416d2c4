"""Files, processes, logs and progress. Knows nothing of evaluations.

files           replaced_file, append_lines: files written whole or not at all
processes       Process, ProcessPool: worker processes that end with their parent
logs            begin_logging: JSON or text logs on stderr
events          telemetry events of a run
tracing         tracing: OpenTelemetry traces and metrics
progress        reporter: progress of stages, sent to one watcher
number_format   numbers as people read them
prefect_blocks  read_secret, limited: Prefect's secrets and concurrency limits
exporters       OpenTelemetry's exporters, of the extra `otel`
listeners       Guard, Rules, Tokens, server_settings: access and bounds of all that listens
operator_settings  what the operator allows: keys, functions, folders
folder_settings    may_name_server, refuse_folder_settings: where Prefect's settings are
secret_values   without_secret_values, without_password: texts without keys
transactions    transaction: of an SQLite database
forking         lake_turn, unforked: what a fork of this process waits for
own_process     call_apart: a call in a process of its own
command_start   begin_command, take_start: when this process's command began
"""

"""Files, processes, logs and progress. Knows nothing of evaluations.

files           replaced_file, append_lines: files written whole or not at all
processes       Process, ProcessPool, call_in_child, call_in_new_process: child processes
logs            begin_logging: JSON or text logs on stderr
events          telemetry events of a run: log lines, OpenTelemetry traces and metrics
progress        reporter: progress of stages, sent to one watcher
prefect_settings  read_secret, limited, refuse_folder_settings: Prefect's secrets, limits and settings
exporters       OpenTelemetry's exporters, of the extra `otel`
listeners       Guard, Rules, Tokens, server_settings: access control and limits of HTTP servers
operator_settings  permissions of the operator: keys, functions, folders
secret_values   without_secret_values, without_password: texts without keys
sqlite          transaction, lake_turn, unforked: SQLite's transactions, and locks that a fork waits for
command_start   begin_command, take_start: when this process's command began
"""

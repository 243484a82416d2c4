"""The flows and the command line.

Prefect reads its settings when it is imported, so ours stand here, before any flow: whoever sets one keeps it.
"""

import os

PREFECT_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # What a run tells is in Prefect's log of its flow run too; a thread that is of no flow run tells nothing there.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "gradebook",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # A command's own server migrates a new database first; the default of 20 s is short for a small machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # Such a server would lose task runs at its end, and work on for half a minute after a thousand of them.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}

for _name, _value in PREFECT_SETTINGS.items():
    os.environ.setdefault(_name, _value)

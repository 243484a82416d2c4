"""The flows and the command line.

Prefect and Arrow read their settings when they are imported, so ours stand here: whoever sets one keeps it.
"""

import os

PREFECT_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The embedded server migrates a new database first; the default of 20 s is short for a small machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # The embedded server would lose task runs at its end, and work on for half a minute after a thousand of them.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}

# Arrow's own pool keeps what was freed: 150 MB more at the peak of a run, for a twentieth of its time.
ARROW_SETTINGS = {"ARROW_DEFAULT_MEMORY_POOL": "system"}

for _name, _value in (PREFECT_SETTINGS | ARROW_SETTINGS).items():
    os.environ.setdefault(_name, _value)

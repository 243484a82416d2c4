"""The flows and the command line.

Prefect reads its settings when it is imported, so this module sets gradebook's defaults before any flow is imported.
Values that are already in the environment win.
"""

import os

PREFECT_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # Send gradebook's log to the flow run's log as well; threads outside a flow run are skipped without a warning.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "gradebook",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # Prefect's temporary server migrates a new database first; the default of 20 s is short for a small machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}

for _name, _value in PREFECT_SETTINGS.items():
    os.environ.setdefault(_name, _value)

"""Log lines on stderr, as JSON objects or sentences, if GRADEBOOK_LOG asks for them."""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from functools import cache
from typing import Any

from gradebook.rubrics.model.errors import InputError

LOGGER = "gradebook"
SETTING = "GRADEBOOK_LOG"
FORMS = ("json", "text")
FIELDS = "gradebook_fields"  # attribute of a record with its extra fields
_PREFECT_LEVEL = "PREFECT_LOGGING_LEVEL"
_SILENT = "CRITICAL"  # the Prefect level set by `gradebook evaluate`, unless verbose

logging.getLogger(LOGGER).addHandler(logging.NullHandler())  # without a handler Python prints warnings to stderr


class JsonFormatter(logging.Formatter):
    """Format a record as one JSON object: time (UTC), level, logger, message, fields. Tracebacks are left out."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line | fields_of(record), default=str)


class TextFormatter(logging.Formatter):
    """Format a record as time, level, run and message."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        run_id = fields_of(record).get("run_id", "")
        return f"{time:%Y-%m-%dT%H:%M:%SZ} {record.levelname.lower():<7} {run_id} {record.getMessage()}"


class StderrHandler(logging.Handler):
    """Handler that writes each record as a line to the current stderr; drops it if stderr is closed."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Extra fields of gradebook's record: run_id, stage, criterion_id, shard, counts, seconds."""
    fields: dict[str, Any] = getattr(record, FIELDS, {})
    return fields


def wanted_form() -> str | None:
    """Value of GRADEBOOK_LOG: `json`, `text` or None. Raises `InputError` for anything else."""
    form = os.environ.get(SETTING, "").strip().lower()
    if form and form not in FORMS:
        raise InputError(SETTING, f"{form!r}", f"{' or '.join(FORMS)}")
    return form or None


def choose_form(form: str | None) -> None:
    """Set the log format of this process and its children. Raises `InputError` for an unknown format."""
    if form is not None:
        os.environ[SETTING] = form
        wanted_form()


def begin_logging() -> None:
    """Send gradebook's records to stderr as GRADEBOOK_LOG says, and to Prefect's log of a flow run.

    Prefect adds its handler to our logger (PREFECT_LOGGING_EXTRA_LOGGERS) and logs from its configured level on.
    """
    is_flow = "prefect" in sys.modules  # else there is no log of a flow run
    _begin(wanted_form(), os.environ.get(_PREFECT_LEVEL, "INFO").upper() if is_flow else _SILENT)


@cache
def _begin(form: str | None, prefect_level: str) -> None:
    logger = logging.getLogger(LOGGER)
    for handler in logger.handlers[:]:
        if prefect_level == _SILENT or isinstance(handler, StderrHandler):
            logger.removeHandler(handler)
    if not logger.handlers:  # Python writes records without a handler to stderr
        logger.addHandler(logging.NullHandler())
    levels = [] if prefect_level == _SILENT else [logging.getLevelNamesMapping().get(prefect_level, logging.INFO)]
    if form is not None:
        lines = StderrHandler()
        lines.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
        logger.addHandler(lines)
        levels.append(logging.INFO)
    logger.propagate = form is None  # Prefect prints records that reach the root: print each line once
    logger.setLevel(min(levels, default=logging.CRITICAL))

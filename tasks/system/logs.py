"""Log lines on stderr, where GRADEBOOK_LOG asks for them: a JSON object or a sentence each."""

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
FIELDS = "gradebook_fields"  # what a record holds beside its message
_PREFECT_LEVEL = "PREFECT_LOGGING_LEVEL"
_SILENT = "CRITICAL"  # as `gradebook evaluate` sets Prefect's level, unless told to be verbose


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time (UTC), level, logger, message, then its fields. Tracebacks are left out."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, in one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line | fields_of(record), default=str)


class TextFormatter(logging.Formatter):
    """A record as a sentence with its time and level before it, and its run."""

    def format(self, record: logging.LogRecord) -> str:
        """The sentence, in one line."""
        time = datetime.fromtimestamp(record.created, UTC)
        run_id = fields_of(record).get("run_id", "")
        return f"{time:%Y-%m-%dT%H:%M:%SZ} {record.levelname.lower():<7} {run_id} {record.getMessage()}"


class StderrHandler(logging.Handler):
    """Writes to whatever stderr is then, a line a call; where nobody reads it any more, the line is lost."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a record of ours holds beside its message: run_id, stage, criterion_id, shard, counts, seconds."""
    fields: dict[str, Any] = getattr(record, FIELDS, {})
    return fields


def wanted_form() -> str | None:
    """`json`, `text` or None, as GRADEBOOK_LOG says. Raises `InputError` for anything else."""
    form = os.environ.get(SETTING, "").strip().lower()
    if form and form not in FORMS:
        raise InputError(SETTING, f"{form!r}", f"{' or '.join(FORMS)}")
    return form or None


def choose_form(form: str | None) -> None:
    """Let this process and those that it starts log in a form. Raises `InputError` for one that there is not."""
    if form is not None:
        os.environ[SETTING] = form
        wanted_form()


def begin_logging() -> None:
    """Let the records of gradebook reach stderr where GRADEBOOK_LOG says so, and Prefect's log of a flow run.

    Prefect puts its handler on our logger (PREFECT_LOGGING_EXTRA_LOGGERS), and logs of the level that it is set to.
    """
    is_flow = "prefect" in sys.modules  # else there is no log of a flow run
    _begin(wanted_form(), os.environ.get(_PREFECT_LEVEL, "INFO").upper() if is_flow else _SILENT)


@cache
def _begin(form: str | None, prefect_level: str) -> None:
    logger = logging.getLogger(LOGGER)
    for handler in logger.handlers[:]:
        if prefect_level == _SILENT or isinstance(handler, StderrHandler):
            logger.removeHandler(handler)
    if not logger.handlers:  # Python writes warnings that nobody handles on stderr
        logger.addHandler(logging.NullHandler())
    levels = [] if prefect_level == _SILENT else [logging.getLevelNamesMapping().get(prefect_level, logging.INFO)]
    if form is not None:
        lines = StderrHandler()
        lines.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
        logger.addHandler(lines)
        levels.append(logging.INFO)
    logger.propagate = form is None  # Prefect prints what reaches the root: each line once
    logger.setLevel(min(levels, default=logging.CRITICAL))

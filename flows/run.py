"""Choice of where work runs: as a Prefect flow if Prefect has an API or is requested, else in this process."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar, cast

from gradebook.flows.display.ends import leave_threads
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.system.prefect_settings import may_name_server, read_api_url, refuse_folder_settings
from gradebook.tasks.system.secret_values import without_password

PREFECT_LOGS = (
    "PREFECT_LOGGING_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL",
)
PREFECT_INNER_LOGS = (
    "PREFECT_SERVER_LOGGING_LEVEL",
    "PREFECT_INTERNAL_LOGGING_LEVEL",
)  # log levels of each request to a server
# Messages of Prefect if no server answered from the beginning, and if its temporary server did not start.
UNREACHED = ("Failed to reach API", "ephemeral Prefect API server")
Made = TypeVar("Made")


def uses_prefect(wanted: bool | None, *, is_verbose: bool = False) -> bool:
    """Whether work runs as a Prefect flow.

    wanted: True for --prefect, False for --no-prefect; None: if Prefect has an API. Prefect has an API if
    PREFECT_API_URL or its active profile names one. To find out, Prefect is imported, which takes seconds, but only if
    a variable or a settings file may name an API.
    """
    if wanted is False:
        return False
    refuse_folder_settings(os.environ)
    if wanted is None and not may_name_server(os.environ):
        return False
    _choose_prefect_logs(is_verbose=is_verbose)
    return wanted or bool(read_api_url())


def run_here(
    direct: Callable[[], Made],
    flow: str,
    parameters: Mapping[str, Any],
    *,
    prefect: bool | None = None,
    is_verbose: bool = False,
) -> Made:
    """Run work in this process, by the rule of `uses_prefect`: call it, or call its flow with the parameters.

    flow: MODULE:NAME below gradebook.flows, which returns the same as `direct`. Raises what the work raises, and
    `LostServer` for a Prefect server that does not answer.
    """
    if not uses_prefect(prefect, is_verbose=is_verbose):
        return direct()
    module, _, name = flow.partition(":")
    with report_lost_server():
        return cast(Made, getattr(import_module(f"gradebook.flows.{module}"), name)(**parameters))


def _choose_prefect_logs(*, is_verbose: bool) -> None:
    """Set Prefect's log level: quiet unless is_verbose. Call it before the first import of Prefect, which reads it."""
    for name in PREFECT_LOGS:
        os.environ.setdefault(name, "INFO" if is_verbose else "CRITICAL")  # a failure is reported once, in a sentence
    for name in PREFECT_INNER_LOGS:
        os.environ.setdefault(name, "CRITICAL")


class LostServer(UnfinishedError):
    """Error: Prefect's server does not come back. The command still succeeds if its run is published."""


@contextmanager
def report_lost_server() -> Iterator[None]:
    """Raise `LostServer` if Prefect's client stops trying to reach its server during the block.

    The client retries for about a minute (PREFECT_CLIENT_MAX_RETRIES); a run continues if the server is back by then.
    """
    try:
        yield
    except Exception as error:
        fault = _server_fault(error)
        if fault is None:
            raise
        name = "Prefect's server"
        if url := read_api_url():
            name += f" at {without_password(url)}"
            leave_threads()  # a temporary server ends with this process, as Prefect has it
        raise LostServer(
            f"{name} {fault}; finished judgments are stored: run the same command again once it is back, or with "
            "--no-prefect without it"
        ) from error


def _server_fault(error: Exception) -> str | None:
    """Sentence on the fault of Prefect's server that caused an error; None for any other cause."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return f"answered HTTP {error.response.status_code}"
    if isinstance(error, httpx.HTTPError):  # only Prefect uses httpx; judges have another HTTP client
        return f"does not answer ({type(error).__name__})"
    is_unreached = isinstance(error, RuntimeError) and any(text in str(error) for text in UNREACHED)
    return "does not answer" if is_unreached else None

"""Prefect's server that does not answer, or not any more: told in a sentence, and not waited for at the end."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gradebook.rubrics.model.errors import UnfinishedError

UNREACHED = "Failed to reach API"  # Prefect's words where no server was there from the beginning


@contextmanager
def lost_server_told() -> Iterator[None]:
    """Raise `UnfinishedError` where Prefect's client gives a server up in the block.

    It tries for a minute (PREFECT_CLIENT_MAX_RETRIES); a run whose server is back by then did not notice.
    """
    try:
        yield
    except Exception as error:
        does = _said_of_server(error)
        if does is None:
            raise
        from prefect.settings import PREFECT_API_URL

        from gradebook.tasks.operations.doctor.machine import without_secrets

        _forget_events()
        address = without_secrets(PREFECT_API_URL.value() or "")
        raise UnfinishedError(
            f"Prefect's server at {address} {does}; what was judged is kept: run the same command again once it is back"
        ) from error


def _said_of_server(error: Exception) -> str | None:
    """What an error says of Prefect's server; None where it is not about that."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return f"answered HTTP {error.response.status_code}"
    if isinstance(error, httpx.HTTPError):  # judges are asked by another client
        return f"does not answer ({type(error).__name__})"
    return "does not answer" if isinstance(error, RuntimeError) and UNREACHED in str(error) else None


def _forget_events() -> None:
    """Drop what the process would send at its end, seven seconds an event: hours after a large run."""
    from prefect.events.worker import EventsWorker

    workers = getattr(EventsWorker, "_instances", {})  # Prefect has no open way to give up
    for worker in list(workers.values()):
        with suppress(queue.Empty):
            while True:
                worker._queue.get_nowait()

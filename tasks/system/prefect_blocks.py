"""Prefect's secrets, concurrency limits and server address."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from gradebook.rubrics.model.errors import EndpointUnavailable


def read_secret(name: str) -> str:
    """Text of a Secret block. Raises `EndpointUnavailable`, without any of the text, if it can't be read."""
    with ThreadPoolExecutor(1) as threads:  # a flow's event loop may be running in this thread
        return threads.submit(asyncio.run, _load_secret(name)).result()


async def _load_secret(name: str) -> str:
    from prefect.blocks.system import Secret

    try:
        secret: Any = await Secret.aload(name)
    except Exception as error:  # noqa: BLE001 - whatever the server or the block raises, the key is not to be had
        raise EndpointUnavailable(
            f"the Prefect Secret block {name} can't be read ({type(error).__name__}); "
            "expected one that the Prefect server holds"
        ) from None
    return str(secret.get())


def read_api_url() -> str:
    """The address of the Prefect server that is set; empty where none is."""
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or ""


def limited(name: str) -> AbstractContextManager[None]:
    """A place under a global concurrency limit of the Prefect server, held while the block runs."""
    from prefect.concurrency.sync import concurrency

    place: AbstractContextManager[None] = concurrency(name, occupy=1, strict=True)
    return place

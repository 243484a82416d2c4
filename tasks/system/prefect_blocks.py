"""Prefect's secrets, concurrency limits and server address."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.system.folder_settings import refuse_folder_settings


def read_secret(name: str) -> str:
    """Text of a Secret block. Raises `EndpointUnavailable`, without any of the text, if it can't be read."""
    refuse_folder_settings(os.environ)
    with ThreadPoolExecutor(1) as threads:  # a flow's event loop may be running in this thread
        return threads.submit(asyncio.run, _load_secret(name)).result()


async def _load_secret(name: str) -> str:
    from prefect.blocks.system import Secret

    try:
        secret: Any = await Secret.aload(name)
    except Exception as error:  # noqa: BLE001 - any error of the server or the block means that there is no key
        raise EndpointUnavailable(
            f"the Prefect Secret block {name} can't be read ({type(error).__name__}); "
            "expected a block of the Prefect server"
        ) from None
    return str(secret.get())


def read_api_url() -> str:
    """Address of the configured Prefect server; empty if there is none."""
    refuse_folder_settings(os.environ)
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or ""


def limited(name: str) -> AbstractContextManager[None]:
    """Place under a global concurrency limit of the Prefect server, occupied during the block."""
    refuse_folder_settings(os.environ)
    from prefect.concurrency.sync import concurrency

    place: AbstractContextManager[None] = concurrency(name, occupy=1, strict=True)
    return place

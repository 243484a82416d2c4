"""Prefect's secrets, concurrency limits, server address and settings.

Prefect reads its settings in its folder of this user and in the current folder, which may be another user's.
"""

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.errors import EndpointUnavailable, InputError


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
    """Slot of a global concurrency limit of the Prefect server, occupied during the block."""
    refuse_folder_settings(os.environ)
    from prefect.concurrency.sync import concurrency

    slot: AbstractContextManager[None] = concurrency(name, occupy=1, strict=True)
    return slot


MOST_BYTES = 1_000_000
NAMING = ("PREFECT_API_URL", "PREFECT_PROFILE")  # variables that may name a server
NAMES = ("prefect.toml", "pyproject.toml", ".env")


def prefect_home() -> Path:
    """Prefect's folder of this person. Raises `InputError` without a home."""
    try:
        return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    except RuntimeError:
        expected = "a folder that this user can write; default: .prefect in HOME"
        raise InputError("PREFECT_HOME", "no home folder of this user", expected) from None


def profiles_file() -> Path:
    """File of Prefect's profiles, which may not exist."""
    return Path(os.environ.get("PREFECT_PROFILES_PATH") or prefect_home() / "profiles.toml")


def may_name_server(environ: Mapping[str, str]) -> bool:
    """Whether a variable or file that Prefect reads may name its server; found without Prefect's slow import."""
    if any(name.upper() in NAMING for name in environ) or folder_settings():
        return True
    try:
        return b"api" in profiles_file().read_bytes().lower()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def refuse_folder_settings(environ: Mapping[str, str]) -> None:
    """Raise `InputError` where Prefect would take settings from files of the current folder.

    Such files name the server that gets PREFECT_API_KEY, and modules that are imported. Call this before the first
    import of Prefect, which reads them; afterwards nothing is refused.
    """
    if "prefect" in sys.modules:
        return
    files = folder_settings()
    if not files:
        return
    from gradebook.tasks.system.operator_settings import FOLDERS, read_operator_settings  # with pydantic

    folder = Path.cwd()
    if not any(folder.is_relative_to(allowed.resolve()) for allowed in read_operator_settings(environ).folders):
        expected = f"them in the environment or a profile of Prefect, or {FOLDERS}={folder}, which allows them"
        raise InputError(" and ".join(files), "settings of Prefect in the current folder", expected)


def folder_settings() -> list[str]:
    """Names of the files of the current folder in which Prefect would find a setting."""
    return [name for name in NAMES if _has_settings(Path(name))]


def _has_settings(path: Path) -> bool:
    """Whether Prefect would find a setting of its own in a file; also if the file can't be read."""
    if not os.path.lexists(path):
        return False
    from gradebook.rubrics.text.named_files import read_whole  # with pydantic

    try:
        text = read_whole(path, MOST_BYTES).decode("utf-8", "replace")
        if path.name == ".env":
            return "prefect_" in text.lower()
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (OSError, ValueError, RecursionError):
        return True
    tool = tables.get("tool") if path.name == "pyproject.toml" else {"prefect": tables}
    return isinstance(tool, dict) and bool(tool.get("prefect"))

"""Prefect in tests: the API of a server, what it needs not do, and the processes of a home."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.samples import write_outputs, write_rubric

SERVER = "GRADEBOOK_TESTS_SERVER"  # variable with the address of the server that the workers share
# What no test asks of the server, and costs as much as all else once it runs: schedules, automations, kept events.
_IDLE = ("SCHEDULER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "TRIGGERS", "EVENT_PERSISTER", "FOREMAN", "REPOSSESSOR")
SERVER_SETTINGS = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE}
# Types of blocks are registered by whoever saves a block; to register all of them takes a CPU second.
SERVER_SETTINGS["PREFECT_SERVER_REGISTER_BLOCKS_ON_START"] = "0"


@contextmanager
def on_server(address: str) -> Iterator[None]:
    """Configure a Prefect API while the block runs: in the environment, and in Prefect, which has read it already."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with pytest.MonkeyPatch.context() as patched, temporary_settings({PREFECT_API_URL: address}):
        patched.setenv("PREFECT_API_URL", address)
        yield


def person(folder: Path) -> dict[str, str]:
    """Environment with a new Prefect home and no server; outputs.jsonl and rubric.yaml are in the folder."""
    write_outputs(folder / "outputs.jsonl")
    text = write_rubric(folder / "rubric.yaml").read_text(encoding="utf-8")
    head, _, checked = text.partition("  - id: clarity")
    (folder / "rubric.yaml").write_text(head + checked[checked.index("  - id: length") :], encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHONPATH"))}
    return kept | {"PREFECT_HOME": str(folder / "home"), "NO_COLOR": "1"}


def processes_of(home: str) -> list[str]:
    """Commands of the processes that were started with that Prefect home and still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("PREFECT_HOME") == home and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found

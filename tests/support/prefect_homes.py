"""Prefect in tests: what a server needs not do, a home of one test without a server, and the processes of a home."""

import os
import time
from pathlib import Path

from tests.support.samples import write_outputs, write_rubric

# What no test asks of the server, and costs as much as all else once it runs: schedules, automations, kept events.
_IDLE = ("SCHEDULER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "TRIGGERS", "EVENT_PERSISTER", "FOREMAN", "REPOSSESSOR")
SERVER_SETTINGS = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE}
# Types of blocks are registered by whoever saves a block; to register all of them takes a CPU second.
SERVER_SETTINGS["PREFECT_SERVER_REGISTER_BLOCKS_ON_START"] = "0"


def make_database(home: Path) -> None:
    """The database of a new Prefect home, without the three CPU seconds of its migrations."""
    import prefect.server.database

    from gradebook.flows.server.database import create_database

    migrations = Path(prefect.server.database.__file__).parent / "_migrations" / "versions" / "sqlite"
    create_database(home / "prefect.db", migrations)


def embedded(folder: Path) -> dict[str, str]:
    """A new Prefect home and no server: gradebook starts one, which ends 5 s after its last command."""
    write_outputs(folder / "outputs.jsonl")
    text = write_rubric(folder / "rubric.yaml").read_text(encoding="utf-8")
    head, _, checked = text.partition("  - id: clarity")
    (folder / "rubric.yaml").write_text(head + checked[checked.index("  - id: length") :], encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHONPATH"))}
    return kept | {"PREFECT_HOME": str(folder / "home"), "GRADEBOOK_SERVER_IDLE_S": "5", "NO_COLOR": "1"}


def processes_of(home: str) -> list[str]:
    """Processes that were started with that Prefect home and still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"PREFECT_HOME={home}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def have_ended(home: str, timeout_s: float = 60) -> bool:
    """Whether the processes of a Prefect home end; a shared server does when it has been idle for a while."""
    end = time.monotonic() + timeout_s
    while processes_of(home) and time.monotonic() < end:
        time.sleep(0.05)
    return not processes_of(home)

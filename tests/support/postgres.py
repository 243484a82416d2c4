"""A PostgreSQL server of the system's binaries in a temporary folder, for tests: a unix socket, no port, no sync."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

SERVER_USER = "postgres"  # initdb refuses to run as root
SETTINGS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=50"


@dataclass(frozen=True)
class PostgresServer:
    """A running server: where its programs and its socket are."""

    programs: Path
    folder: Path

    def connection(self, database: str) -> str:
        """The connection string of a database."""
        return f"dbname={database} host={self.folder} port=5432 user={SERVER_USER}"

    def create_database(self, name: str | None = None) -> str:
        """Make an empty database, of a name of its own where none is given, and return its connection string."""
        name = name or f"lake_{uuid4().hex}"
        self.ask("postgres", f"create database {name}")
        return self.connection(name)

    def restart(self) -> None:
        """Kill the server's processes and start it again: what was not committed is gone."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Kill the server's processes."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._control("-l", self.folder / "log", "-o", f"{SETTINGS} -k {self.folder}", "start")

    def _control(self, *words: str | Path) -> None:
        user = SERVER_USER if os.geteuid() == 0 else None
        _run([self.programs / "pg_ctl", "-D", self.folder / "cluster", "-w", *words], user)

    def ask(self, database: str, statement: str) -> str:
        """What the server itself says to one statement."""
        return _run([self.programs / "psql", "-qAtX", "-c", statement, self.connection(database)], user=None)


def find_programs() -> Path | None:
    """The folder of initdb and pg_ctl, of the newest version; None where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = shutil.which("initdb")
    candidates = [*([Path(found).resolve().parent] if found else []), *reversed(folders)]
    return next((folder for folder in candidates if (folder / "pg_ctl").exists()), None)


@contextmanager
def running_server(programs: Path) -> Iterator[PostgresServer]:
    """Start a server with a new, empty database folder; stop it and delete the folder at the end."""
    user = SERVER_USER if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="gradebook-pg-", dir="/tmp"))  # a socket's path holds 107 letters at most
    try:
        if user:
            shutil.chown(folder, user)
        cluster = folder / "cluster"
        _run([programs / "initdb", "-D", cluster, "-U", SERVER_USER, "-A", "trust", "--no-sync"], user)
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str | Path], user: str | None) -> str:
    # The server inherits pipes and would hold them open: its output goes to its log, so only /dev/null is inherited.
    with tempfile.TemporaryFile("w+") as output:
        code = subprocess.call(
            list(map(str, command)), user=user, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        output.seek(0)
        if code:
            raise RuntimeError(f"{command[0]}: {output.read()}")
        return output.read()

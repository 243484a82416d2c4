"""Program of the process that flows.server.shared starts: Prefect's server, until no command uses it.

    python process.py STATE_FILE IDLE_S PORT

It prints one line: a JSON object that describes the server which serves these settings, itself or one that was faster;
an empty line if Prefect's settings name another server.
"""

import asyncio
import fcntl
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gradebook.flows.server.database import create_database, has_all_migrations
from gradebook.flows.server.port_keeper import keep_port, take_port
from gradebook.tasks.system.kept_process import LEAST_IDLE_S, claim_state, other_state, write_state
from gradebook.tasks.system.listeners import Guard, Rules, hosts_of, refuse_without, server_settings

AUTH = "PREFECT_SERVER_API_AUTH_STRING"
HEALTH = ("/api/health", "/api/ready")  # as Prefect itself answers them, without a password
# Prefect's settings for the server that it starts itself: no pages, and no services for schedules. Without a page,
# no other origin has a reason to ask. Types of blocks are registered by whoever saves a block; to register all of them
# takes a CPU second, and a memo would keep Prefect's own server from doing it. No types are checked at each call of a
# library for Redis, and no plugins of pydantic are looked for.
EPHEMERAL = {
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "0",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "0",
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "http://127.0.0.1",
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "1",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


def main() -> None:
    """Serve until no client has been connected for IDLE_S."""
    state_file, idle_s, port = Path(sys.argv[1]), max(float(sys.argv[2]), LEAST_IDLE_S), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not be read as the answer
    os.umask(0o077)  # the database has the parameters of runs, and Secret blocks
    os.environ.update(EPHEMERAL)
    gc.disable()  # the imports create a million objects, hardly any of them garbage
    if not _is_needed():
        print(file=answers, flush=True)
        return
    if not sys.stdin.readline():  # the command has ended before it needed a server
        return
    state = claim_state(state_file)
    if state is None:
        print(other_state(state_file), file=answers, flush=True)
        return
    auth = os.environ[AUTH]
    listening = (take_port(auth) if port else None) or _bind(port)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    print(write_state(state, address, auth, idle_s), file=answers, flush=True)
    answers.close()
    asyncio.run(_serve(listening, idle_s, keep_port(listening, auth)))


def _bind(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # also at the address of one that was killed
    listening.bind(("127.0.0.1", port))
    return listening


def rules_of(port: int, auth: str) -> Rules:
    """For programs of this person alone."""
    return Rules(hosts_of(port), refuse_without(auth, HEALTH), has_web_sockets=True)


def _is_needed() -> bool:
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    return not PREFECT_API_URL.value() and bool(PREFECT_SERVER_EPHEMERAL_ENABLED.value())


@contextmanager
def _startup_lock() -> Iterator[None]:
    """Let one server at a time start: two that create the same database at once break each other."""
    from prefect.settings import get_current_settings

    with (get_current_settings().home / "gradebook.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _prepare_database()
        yield


def _prepare_database() -> None:
    """Create the database that the settings name, if it is a SQLite file that does not exist.

    Where no migration is left to apply, Prefect is set to look for none.
    """
    from prefect.server import database
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, get_current_settings
    from sqlalchemy.engine import make_url

    url = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value())
    if url.get_backend_name() == "sqlite" and url.database and not url.query and url.database != ":memory:":
        migrations = Path(database.__file__).parent / "_migrations" / "versions" / "sqlite"
        create_database(Path(url.database), migrations)
        if has_all_migrations(Path(url.database), migrations):
            get_current_settings().server.database.migrate_on_start = False


async def _serve(listening: socket.socket, idle_s: float, end_keeper: Callable[[], None]) -> None:
    import uvicorn

    class SharedServer(uvicorn.Server):
        """A server that stops when no client has been connected for a while."""

        used_at = time.monotonic()
        seen_count = 0  # requests

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            with _startup_lock():
                await super().startup(sockets)
            self.used_at = time.monotonic()
            gc.freeze()
            gc.enable()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            end_keeper()
            await super().shutdown(sockets)

        async def on_tick(self, counter: int) -> bool:
            if self.server_state.connections or self.server_state.total_requests > self.seen_count:
                self.used_at = time.monotonic()
            self.seen_count = self.server_state.total_requests
            self.should_exit |= time.monotonic() - self.used_at > idle_s
            return await super().on_tick(counter)

    def guarded() -> Guard:
        from prefect.logging import configuration
        from prefect.server.api.server import create_app
        from prefect.settings import Settings

        # Twice 55 ms: the key of each application, of which this process has one.
        Settings.hash_key = lambda _settings: "one"  # type: ignore[assignment]
        # 100 ms: the import of Prefect has set it up, from the same settings.
        configuration.setup_logging = dict  # type: ignore[assignment]
        return Guard(create_app(), rules_of(listening.getsockname()[1], os.environ[AUTH]))

    settings = uvicorn.Config(guarded, factory=True, log_level="error", lifespan="on", **server_settings())
    await SharedServer(settings).serve([listening])


if __name__ == "__main__":
    main()

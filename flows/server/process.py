"""Prefect's server as the process of one command: a script, started by flows.own_server, that ends when its stdin does.

It says two lines on stdout: its address, empty where the settings name another server, and `ready`. It imports nothing
of gradebook, so that it runs wherever this file lies.
"""

import asyncio
import fcntl
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

# What Prefect sets for the server that it starts itself: no pages, and the services of a server without schedules.
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
# How long it may still work when the command is gone: at a new database, and at what the command told it last.
STARTING_FAREWELL_S, READY_FAREWELL_S = 3.0, 10.0


@dataclass
class _Command:
    """The life of the command that started this process: over when stdin is closed, by it or for it."""

    is_over: bool = False
    farewell_s: float = 0.0

    def watch(self) -> None:
        """Wait for its end, and see to the end of this process."""
        while os.read(0, 1):
            pass
        self.is_over = True
        time.sleep(self.farewell_s)
        os._exit(0)


def main() -> None:
    """Serve until the command that started this process is done, or dead."""
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not be taken for an address
    command = _Command()
    threading.Thread(target=command.watch, daemon=True).start()
    os.environ.update(EPHEMERAL)
    gc.disable()  # the imports make a million objects and hardly any of them is garbage
    if not _is_wanted():
        print(file=said, flush=True)
        return
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/api", file=said, flush=True)
    asyncio.run(_serve(listening, command, lambda: print("ready", file=said, flush=True)))


def _is_wanted() -> bool:
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    return not PREFECT_API_URL.value() and bool(PREFECT_SERVER_EPHEMERAL_ENABLED.value())


@contextmanager
def _first_start() -> Iterator[None]:
    """One server at a time, while the block runs: two that make the same database at once break each other."""
    from prefect.settings import get_current_settings

    with (get_current_settings().home / "gradebook.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def _serve(listening: socket.socket, command: _Command, tell: Callable[[], None]) -> None:
    import uvicorn

    class OwnServer(uvicorn.Server):
        """A server that tells when it has started, and ends when the command is over."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            command.farewell_s = STARTING_FAREWELL_S
            with _first_start():
                await super().startup(sockets)
            command.farewell_s = READY_FAREWELL_S
            gc.freeze()
            gc.enable()
            with suppress(BrokenPipeError):
                tell()

        async def on_tick(self, counter: int) -> bool:
            self.should_exit |= command.is_over
            return await super().on_tick(counter)

    settings = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on", access_log=False
    )
    await OwnServer(settings).serve([listening])


if __name__ == "__main__":
    main()

"""Script of the process that flows.server.own starts: Prefect's server, until stdin is closed.

It prints two lines: its address, empty if the settings name another server, and `ready`. It imports nothing of
gradebook, so it runs from any place.
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

# Prefect's settings for the server that it starts itself: no pages, and no services for schedules.
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
# Time to finish after the command has ended: while it migrates a new database, and while it stores the last events.
STARTING_GRACE_S, READY_GRACE_S = 3.0, 10.0


class _Command:
    """The command that started this process. It has ended when stdin is closed."""

    has_ended = False
    grace_s = 0.0  # how long this process may go on after that

    def watch(self) -> None:
        """Wait for the end of the command, then exit after the grace period."""
        while os.read(0, 1):
            pass
        self.has_ended = True
        time.sleep(self.grace_s)
        os._exit(0)


def main() -> None:
    """Serve until the command that started this process ends or is killed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not be read as the address
    command = _Command()
    threading.Thread(target=command.watch, daemon=True).start()
    os.environ.update(EPHEMERAL)
    gc.disable()  # the imports create a million objects, hardly any of them garbage
    if not _is_needed():
        print(file=answers, flush=True)
        return
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/api", file=answers, flush=True)
    asyncio.run(_serve(listening, command, lambda: print("ready", file=answers, flush=True)))


def _is_needed() -> bool:
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    return not PREFECT_API_URL.value() and bool(PREFECT_SERVER_EPHEMERAL_ENABLED.value())


@contextmanager
def _startup_lock() -> Iterator[None]:
    """Let one server at a time start: two that create the same database at once break each other."""
    from prefect.settings import get_current_settings

    with (get_current_settings().home / "gradebook.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def _serve(listening: socket.socket, command: _Command, report_ready: Callable[[], None]) -> None:
    import uvicorn

    class OwnServer(uvicorn.Server):
        """A server that reports when it has started and stops when the command has ended."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            command.grace_s = STARTING_GRACE_S
            with _startup_lock():
                await super().startup(sockets)
            command.grace_s = READY_GRACE_S
            gc.freeze()
            gc.enable()
            with suppress(BrokenPipeError):
                report_ready()

        async def on_tick(self, counter: int) -> bool:
            self.should_exit |= command.has_ended
            return await super().on_tick(counter)

    settings = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on", access_log=False
    )
    await OwnServer(settings).serve([listening])


if __name__ == "__main__":
    main()

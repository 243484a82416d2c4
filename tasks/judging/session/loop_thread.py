"""Thread with an event loop, where sessions ask."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Returned = TypeVar("Returned")


class JudgingThread:
    """One thread with one event loop. Sessions of several judges share it, and with it the budget of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judging", daemon=True)
        self._cpu_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        """Run a coroutine in the thread and wait for its value in the calling thread."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, Returned]) -> Future[Returned]:
        """Start a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the thread, up to its end."""
        if self._thread.is_alive():
            self._cpu_s = self.run(_thread_cpu_s())
        return self._cpu_s

    def end(self) -> None:
        """Stop the loop and join the thread."""
        self._cpu_s = self.cpu_s
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _thread_cpu_s() -> float:
    return time.thread_time()

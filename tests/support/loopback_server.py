"""HTTP server of a test, in a thread of its own."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from aiohttp import web


class LoopbackServer:
    """Server that runs inside a `with` block."""

    async def start(self, port: int = 0) -> web.AppRunner:
        """Begin to serve on 127.0.0.1. port: 0 for any."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:  # requests that hang
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

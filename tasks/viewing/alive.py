"""Stream of what is alive: runs in progress, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.viewing.frame import Frame

ALIVE_S = 1.0  # between two readings
MOST_STREAMS = 100  # open at once; further pages are not alive


def routes(frame: Frame) -> list[Route]:
    """Address of the stream. Events: `progress`, the runs in progress as HTML; `changed`, as one began or ended."""
    open_streams: set[object] = set()

    async def alive(request: Request) -> Response:
        if len(open_streams) >= MOST_STREAMS:
            return Response(status_code=503)
        return StreamingResponse(_events(frame, request, open_streams), media_type="text/event-stream")

    return [Route("/alive", alive)]


async def _events(frame: Frame, request: Request, open_streams: set[object]) -> AsyncIterator[str]:
    stream = object()
    open_streams.add(stream)
    sent, states = "", request.query_params.get("states", "").split()  # as the page was drawn
    run_id = request.query_params.get("run")
    try:
        while not await request.is_disconnected():
            lines = await run_in_threadpool(frame.progress.read)
            if run_id:
                lines = tuple(line for line in lines if line.run.run_id == run_id)
            fragment = render("view/progress.html.j2", progress=lines)
            if fragment != sent:
                yield _event("progress", fragment)
            if (now := [line.state for line in lines]) != states:
                yield _event("changed", " ".join(now))
            sent, states = fragment, now
            await asyncio.sleep(ALIVE_S)
    finally:
        open_streams.discard(stream)


def _event(name: str, content: str) -> str:
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in content.splitlines() or [""]) + "\n"

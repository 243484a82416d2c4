"""HTTP clients for judges: of what an endpoint sends so much is kept and no more, and none of it leads elsewhere."""

from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import Any

import httpx2
from openai import DefaultAioHttpClient, DefaultHttpxClient

MOST_BODY_BYTES = 16 * 2**20  # unpacked: a few kilobytes can be written that unpack to gigabytes
KEPT_OF_A_FLOOD = 2**20  # enough to show what it was
_OF_THE_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})  # not of what was unpacked


class BoundedHttpClient(DefaultAioHttpClient):
    """Reads each body whole; of one of more than 16 MiB it keeps the first, and lets go of the connection.

    A redirect comes back as the reply that it is: following it would show the prompt to whoever it names.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(follow_redirects=False, **settings)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; the response is read already."""
        response = await super().send(request, **(options | {"stream": True}))
        try:
            body = await _read_bounded(response)
        finally:
            await response.aclose()
        return _read_response(response, body, request)


class BoundedFileClient(DefaultHttpxClient):
    """The same for one thread; what is asked for as a stream comes as one, unless it is a refusal."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(follow_redirects=False, **settings)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; the response is read already where it is no stream."""
        response = super().send(request, **(options | {"stream": True}))
        if options.get("stream") and response.is_success:
            return response
        with closing(response):
            body = _within_bounds(response.iter_bytes())
        return _read_response(response, body, request)


def _read_response(response: httpx2.Response, body: bytes, request: httpx2.Request) -> httpx2.Response:
    kept = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
    return httpx2.Response(response.status_code, headers=kept, content=body, request=request)


def _within_bounds(pieces: Iterator[bytes]) -> bytes:
    read = bytearray()
    for piece in pieces:
        read += piece
        if len(read) > MOST_BODY_BYTES:
            return bytes(read[:KEPT_OF_A_FLOOD])
    return bytes(read)


async def _read_bounded(response: httpx2.Response) -> bytes:
    read: list[bytes] = []
    length = 0
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            read.append(piece)
            length += len(piece)
            if length > MOST_BODY_BYTES:
                return b"".join(read)[:KEPT_OF_A_FLOOD]
    return b"".join(read)

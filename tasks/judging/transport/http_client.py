"""HTTP clients for judges, with a size limit and without redirects."""

from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import Any

import httpx2
from openai import DefaultAioHttpClient, DefaultHttpxClient

MOST_BODY_BYTES = 16 * 2**20  # decompressed: a few kilobytes can decompress to gigabytes
OVERSIZED_BODY_BYTES = 2**20  # part of an oversized body, enough to recognise it
# Describe the transfer, not the decompressed body.
_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class BoundedHttpClient(DefaultAioHttpClient):
    """Asynchronous client that reads each body whole; a body over 16 MiB is cut and the connection closed.

    Redirects are returned as replies: following one would show the prompt to another server.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(follow_redirects=False, **settings)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request and read the response."""
        response = await super().send(request, **(options | {"stream": True}))
        try:
            body = await _read_bounded(response)
        finally:
            await response.aclose()
        return _read_response(response, body, request)


class BoundedFileClient(DefaultHttpxClient):
    """Synchronous client with the same size limits. Successful streamed responses stay streams."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(follow_redirects=False, **settings)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; the response is read unless it is a successful stream."""
        response = super().send(request, **(options | {"stream": True}))
        if options.get("stream") and response.is_success:
            return response
        with closing(response):
            body = _read_bounded_now(response.iter_bytes())
        return _read_response(response, body, request)


def _read_response(response: httpx2.Response, body: bytes, request: httpx2.Request) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _TRANSFER_HEADERS]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _read_bounded_now(pieces: Iterator[bytes]) -> bytes:
    read = bytearray()
    for piece in pieces:
        read += piece
        if len(read) > MOST_BODY_BYTES:
            return bytes(read[:OVERSIZED_BODY_BYTES])
    return bytes(read)


async def _read_bounded(response: httpx2.Response) -> bytes:
    read: list[bytes] = []
    length = 0
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            read.append(piece)
            length += len(piece)
            if length > MOST_BODY_BYTES:
                return b"".join(read)[:OVERSIZED_BODY_BYTES]
    return b"".join(read)

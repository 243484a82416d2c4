"""HTTP clients for judges, with a size limit and without redirects: one for replies, one for files of batches.

A client of openai takes half a millisecond of CPU a request and 0.3 s to import, so only the files of batches use it.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2

from gradebook.tasks.judging.replies.completion import HttpReply

MOST_BODY_BYTES = 16 * 2**20  # decompressed: a few kilobytes can decompress to gigabytes
OVERSIZED_BODY_BYTES = 2**20  # part of an oversized body, enough to recognise it
IDLE_S = 4.0  # below the 5 s after which common servers hang up on an idle connection
# Describe the transfer, not the decompressed body.
_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_ACCOUNT_HEADERS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


class BoundedHttpClient:
    """Asynchronous client of one address, in one event loop. A body over 16 MiB is cut and its connection closed.

    Redirects are returned as replies: following one would show the prompt to another server.
    """

    def __init__(self, base_url: str, key: str, most_connections: int) -> None:
        self._base_url, self._proxy = base_url, proxy_of(base_url)
        connector = aiohttp.TCPConnector(
            limit=most_connections,
            keepalive_timeout=IDLE_S,
            ssl=httpx2.create_ssl_context() if base_url.startswith("https:") else True,
        )
        no_limit = aiohttp.ClientTimeout()  # the caller limits the whole request
        headers = request_headers(key) | {"Content-Type": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, timeout=no_limit, headers=headers)

    async def post(self, path: str, body: bytes) -> HttpReply:
        """Post JSON and read the response. Raises `aiohttp.ClientError`."""
        url = f"{self._base_url}{path}"
        async with self._session.post(url, data=body, allow_redirects=False, proxy=self._proxy) as response:
            content = await _read_bounded(response)
            return HttpReply(response.status, response.headers, content, response.charset)

    async def close(self) -> None:
        await self._session.close()


def request_headers(key: str) -> dict[str, str]:
    """Headers of every request to a judge. An account's organisation and project are read from the environment."""
    account = {header: os.environ[name] for name, header in _ACCOUNT_HEADERS.items() if os.environ.get(name)}
    return {"Authorization": f"Bearer {key}", "Accept": "application/json", "User-Agent": "gradebook"} | account


def proxy_of(base_url: str) -> str | None:
    """Proxy that the environment names for an address: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""
    address = urlsplit(base_url)
    if proxy_bypass(address.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    read: list[bytes] = []
    length = 0
    async for piece in response.content.iter_any():
        read.append(piece)
        length += len(piece)
        if length > MOST_BODY_BYTES:
            response.close()
            return b"".join(read)[:OVERSIZED_BODY_BYTES]
    return b"".join(read)


class BoundedFileClient(httpx2.Client):
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

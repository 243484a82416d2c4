"""HTTP clients for judges, with a size limit and without redirects."""

import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2

from gradebook.tasks.judging.settings.aws_signature import AWS, signed_headers
from gradebook.tasks.judging.settings.keys import NO_KEY, fresh_key, read_headers
from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.transport.endpoint import endpoint_of
from gradebook.tasks.system.operator_settings import is_loopback

MOST_BODY_BYTES = 16 * 2**20  # decompressed: a few kilobytes can decompress to gigabytes
OVERSIZED_BODY_BYTES = 2**20  # part of an oversized body, enough to recognise it
IDLE_S = 4.0  # below the 5 s after which common servers hang up on an idle connection
# Describe the transfer, not the decompressed body.
_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_HEADERS_OF_A_REQUEST = ("host", "accept", "content-", "transfer-encoding", "x-stainless-")  # the last: of `openai`
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def request_headers(address: Address, key: str) -> dict[str, str]:
    """Headers of a request to an address."""
    common = {"User-Agent": "gradebook", "Accept": "application/json", "Accept-Encoding": "gzip"}
    form_headers = endpoint_of(address).headers(address, NO_KEY if address.key == AWS else key)
    return form_headers | {"Content-Type": "application/json"} | common | read_headers(address, os.environ)


def with_query(address: Address, path: str) -> str:
    """Address of a path, with the query that the settings name."""
    return address.base_url + path + (f"?{urlencode(address.query)}" if address.query else "")


class BoundedSession:
    """Connections to one address, in one event loop. A body over 16 MiB is cut and its connection closed.

    A redirect is returned as a reply: following one would show the prompt to another server.
    """

    def __init__(self, address: Address, key: str, most_connections: int) -> None:
        self._address, self._proxy = address, _proxy_of(address.base_url)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=most_connections, keepalive_timeout=IDLE_S, ssl=httpx2.create_ssl_context()
            ),
            headers=request_headers(address, key),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),  # the caller's
        )

    async def close(self) -> None:
        await self._session.close()

    def renew(self, key: str) -> None:
        """Send another key from now on."""
        self._session.headers.update(request_headers(self._address, key))

    async def post(self, path: str, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send JSON to a path below the address. Returns the status, the headers and the body.

        Raises `aiohttp.ClientError` if there is no connection, or no whole reply.
        """
        url = with_query(self._address, path)
        signed = signed_headers("POST", url, content) if self._address.key == AWS else None
        async with self._session.post(
            url, data=content, headers=signed, allow_redirects=False, proxy=self._proxy
        ) as response:
            read = bytearray()
            while piece := await response.content.readany():
                read += piece
                if len(read) > MOST_BODY_BYTES:
                    response.close()
                    break
            packing = response.headers.get("Content-Encoding", "identity").lower()
            body = bytes(read) if packing == "identity" else _unpacked(read, packing)
        is_whole = len(body) <= MOST_BODY_BYTES
        return response.status, response.headers, body if is_whole else body[:OVERSIZED_BODY_BYTES]


def _unpacked(body: bytes | bytearray, packing: str) -> bytes:
    """Decompressed body, up to its limit. packing: as the endpoint names it."""
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, MOST_BODY_BYTES + 1)
    except zlib.error as error:
        raise aiohttp.ClientPayloadError(f"a body that is not packed as {packing!r}") from error


def _proxy_of(base_url: str) -> str | None:
    """Proxy that the environment names for an address; none for this machine itself."""
    url, proxies = urlsplit(base_url), getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or not url.hostname or is_loopback(url.hostname) or proxy_bypass(url.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class BoundedFileClient(httpx2.Client):
    """Synchronous client with the same limits and proxies. Successful streamed responses stay streams."""

    def __init__(self, address: Address, key: str, **settings: Any) -> None:
        super().__init__(follow_redirects=False, mounts=dict.fromkeys(_LOOPBACK), **settings)
        self._address, self._key = address, key

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; the response is read unless it is a successful stream."""
        # The `openai` package adds OPENAI_CUSTOM_HEADERS, which may hold the key of another endpoint.
        sdk_headers = {name: value for name, value in request.headers.items() if name.startswith(_HEADERS_OF_A_REQUEST)}
        request.headers = httpx2.Headers(request_headers(self._address, fresh_key(self._address, self._key)))
        request.headers.update(sdk_headers)
        if self._address.query:
            request.url = request.url.copy_merge_params(self._address.query)
        if self._address.key == AWS:
            content_type = request.headers["Content-Type"]
            request.headers.update(signed_headers(request.method, str(request.url), request.read(), content_type))
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

"""Pages of `gradebook view`: its server, and pages as a browser with the command's link gets them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

from starlette.testclient import TestClient

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.system.listeners import Tokens
from gradebook.tasks.viewing.server import view_app

HOST = "testserver:80"


@contextmanager
def view_server(lake: Lake) -> Iterator[str]:
    """Link of `gradebook view`, a process that runs until the block ends."""
    command = [sys.executable, "-m", "gradebook", "view", "--lake", f"sqlite:{lake.address}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def viewer(lake: Lake) -> TestClient:
    """Client that has followed the link of a lake's server."""
    tokens = Tokens()
    client = TestClient(view_app(lake, tokens, (HOST, "testserver")), base_url="http://testserver")
    assert client.get(f"/t/{tokens.issue('reader')}").status_code == 200
    return client


def start_tags(page: str) -> list[tuple[str, list[str]]]:
    """Start tags of a page in their order, each with the names of its attributes."""
    tags: list[tuple[str, list[str]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, [name for name, _ in attrs]))

    Reader().feed(page)
    return tags

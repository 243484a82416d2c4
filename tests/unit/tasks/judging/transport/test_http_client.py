"""Requests to a judge: proxies of the environment, texts of bodies."""

import pytest

from gradebook.tasks.judging.replies.completion import HttpReply
from gradebook.tasks.judging.transport.http_client import proxy_of

PROXIES = {"https_proxy": "proxy:3128", "no_proxy": "localhost,.inside.example"}


@pytest.mark.parametrize(
    ("base_url", "proxy"),
    [
        ("https://api.example.com/v1", "http://proxy:3128"),
        ("http://api.example.com/v1", None),
        ("https://judge.inside.example/v1", None),
        ("https://localhost:8000/v1", None),
    ],
)
def test_the_environment_names_the_proxy_of_an_address(
    base_url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in PROXIES.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(base_url) == proxy


@pytest.mark.parametrize("charset", ["utf-8", None, "no-charset"])
def test_a_body_is_read_whatever_its_charset(charset: str | None):
    assert HttpReply(500, {}, "gréyé".encode(), charset).text == "gréyé"

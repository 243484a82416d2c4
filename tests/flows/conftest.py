"""A judge at hand for the tests that type commands."""

from collections.abc import Iterator

import pytest
from loopback_judge import LoopbackJudge


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    """A real endpoint on loopback, with its address and key in the environment."""
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
        yield server

"""A judge on loopback that takes one key and no other."""

from collections.abc import Iterator

import pytest

from tests.support.asked import CANARY
from tests.support.loopback_judge import LoopbackJudge


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with LoopbackJudge(key=CANARY) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)  # the key is for this address alone
        yield server

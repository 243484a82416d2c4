"""New lakes, cheap ones, and a judge on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import prepare_lake
from tests.support.loopback_judge import LoopbackJudge
from tests.support.new_lakes import copied_lakes


@pytest.fixture(scope="module", autouse=True)
def new_lakes() -> Iterator[None]:
    """Copy the lakes that a module's tests make in this process; a folder about the making of lakes overrides it."""
    with copied_lakes():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A new lake in the test's folder."""
    new = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(new)
    return new


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    """Endpoint on loopback, with its address and key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server

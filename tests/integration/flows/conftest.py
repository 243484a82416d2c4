"""Fixtures of command tests: a judge on loopback, and a published run to read."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_outputs, write_rubric


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    """Endpoint on loopback, with its address and key in the environment."""
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
        yield server


@pytest.fixture(scope="session")
def kept_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the first `judged_run`; later tests copy it."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def judged_run(evaluate, judge: LoopbackJudge, tmp_path: Path, kept_runs: Path) -> Any:
    """Output of an evaluation of 12 outputs; its outputs.jsonl, rubric.yaml and lake are in the test's folder.

    `clarity` is judged by gpt-4o-mini, `length` checked.
    """
    kept = kept_runs / "judged"
    if not kept.exists():
        write_outputs(tmp_path / "outputs.jsonl")
        write_rubric(tmp_path / "rubric.yaml")
        finished = evaluate("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini")
        assert finished.code == 0, finished.err
        (tmp_path / "finished.json").write_text(finished.out, encoding="utf-8")
        shutil.copytree(tmp_path, kept)
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return json.loads((tmp_path / "finished.json").read_text(encoding="utf-8"))

"""A published run for command tests to read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.made_once import made_once
from tests.support.published_runs import publish
from tests.support.samples import write_outputs, write_rubric


@pytest.fixture
def judged_run(judge: LoopbackJudge, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Output of an evaluation of 12 outputs; its outputs.jsonl, rubric.yaml and lake are in the test's folder.

    `clarity` is judged by gpt-4o-mini, `length` checked.
    """
    shutil.copytree(made_once(tmp_path_factory, "judged", _evaluate), tmp_path, dirs_exist_ok=True)
    return json.loads((tmp_path / "finished.json").read_text(encoding="utf-8"))


def _evaluate(folder: Path) -> None:
    outputs, rubric = write_outputs(folder / "outputs.jsonl"), write_rubric(folder / "rubric.yaml")
    summary = publish(outputs, rubric, has_report=True, judge="gpt-4o-mini")
    (folder / "finished.json").write_text(json.dumps(summary.as_json(), default=str), encoding="utf-8")

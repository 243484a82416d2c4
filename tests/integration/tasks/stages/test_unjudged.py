"""Outputs of a file that people rate before any judge is asked."""

from pathlib import Path

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.pipeline import run_to_rate

OUTPUTS = '{"case_id": "c1", "model": "m", "answer": "four"}\n{"case_id": "c2", "model": "m", "answer": "five"}\n'


@pytest.mark.nightly
def test_outputs_of_a_file_become_one_run_without_a_judge(tmp_path: Path):
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text(OUTPUTS, encoding="utf-8")
    request = EvaluationRequest(
        outputs=str(outputs),
        rubric="general_answer",
        lake=f"sqlite:{tmp_path / 'lake' / 'catalog.sqlite'}",
        column_map={"output": "answer"},
    )
    run_id = run_to_rate(request)
    assert run_to_rate(request) == run_id  # the queue goes on
    with connect(find_lake(request.lake), read_only=True) as connection:
        assert connection.execute("select run_id, status, judge from runs").fetchall() == [(run_id, "published", None)]
    outputs.write_text(OUTPUTS.replace("five", "six"), encoding="utf-8")
    assert run_to_rate(request) != run_id

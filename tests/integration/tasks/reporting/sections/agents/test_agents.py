"""Section "Agents": the error map and the cost of a solved task, on the page of a real run and by hand."""

from pathlib import Path

import numpy as np
import pytest

from gradebook.tasks.reporting.sections.agents import solved_cost
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish
from tests.support.samples import write_lines
from tests.support.steps_judge import write_steps

RUBRIC = """
id: agent_steps
version: 1.0.0
pass_threshold: 0.95
taxonomy: trail
criteria:
  - id: steps
    description: Is the step right?
    method: {type: judge, unit: step}
"""


def test_the_page_shows_errors_by_type_and_step_and_what_a_solved_task_costs(monkeypatch, tmp_path: Path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(RUBRIC, encoding="utf-8")
    rows = [
        {
            "case_id": f"c{case}",
            "model": "<b>m</b>",
            "output": "Done.",
            "steps": [
                {"kind": "tool", "name": "search", "output": "fine", "cost_usd": 0.25},
                {"kind": "tool", "name": "book", "output": "wrong" if case < 2 else "fine", "cost_usd": 0.25},
            ],
        }
        for case in range(6)
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with LoopbackJudge() as judge:
        judge.writer = write_steps
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        run = publish(write_lines(tmp_path / "outputs.jsonl", rows), rubric, judge="m", has_report=True)
    page = (tmp_path / "lake" / "runs" / run.run_id / "report.html").read_text(encoding="utf-8")
    words = "The judge marked 2 steps below the best label; most often reasoning / hallucination_language: 2 (100.0%)."
    assert words in page
    assert "A solved task costs $0.750 with" in page  # 6 * 0.50 over 4
    assert "<b>m</b>" not in page


@pytest.mark.parametrize(
    ("solved", "cases", "cost", "reason"),
    [
        ([1, 0, 1, 1], "abcd", 2.0, None),  # (1 + 1 + 2 + 2) / 3
        ([0, 0, 0, 0], "abcd", None, "no task is solved"),
        ([1, 0, 1, 1], "aaaa", 2.0, "too few cases"),
        ([0, 0, 0, 1], "abcd", 6.0, "one has all"),  # without the last case nothing is solved
    ],
)
def test_a_solved_task_costs_all_runs_over_those_that_passed(solved, cases, cost, reason):
    found = solved_cost(np.array([1.0, 1.0, 2.0, 2.0]), np.array(solved, dtype=float), list(cases))
    assert found.cost_usd == cost
    if reason is None:
        assert found.interval.low < 2 < found.interval.high
    else:
        assert reason in found.reason

"""Criteria that see an agent's steps: asked, paid for once, quoted and verified in a real run."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ledger.verify import verify_ledger
from tests.support import agent_traces
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish

CRITERION = """
  - id: {name}
    description: Good {name}?
    weight: 1
    scale: {{min: 1, max: 3}}
    method: {{type: judge, sees: {sees}}}
"""
SEES = {"tone": "answer", "path": "trajectory", "help": "answer", "tools": "trajectory", "order": "steps"}
RUBRIC = "id: agent\nversion: 1.0.0\ncriteria:\n" + "".join(
    CRITERION.format(name=name, sees=sees)
    for name, sees in {
        "tone": "answer",
        "path": "trajectory",
        "help": "answer",
        "tools": "trajectory",
        "order": "steps",
    }.items()
)


def evaluated(folder: Path, judge_file: str = "m", **request: Any) -> Any:
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "run.jsonl").write_text(json.dumps(agent_traces.otlp_messages()), encoding="utf-8")
    return publish(folder / "run.jsonl", folder / "rubric.yaml", judge=judge_file, **request)


def rows_in(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with connect(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), read_only=True) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.nightly
def test_each_criterion_sees_what_it_asks_for_and_is_paid_for_once(judge: LoopbackJudge, tmp_path: Path):
    evaluated(tmp_path)
    shown = {}
    for body in judge.bodies:
        user = body["messages"][1]["content"]
        case, _, criterion = user.removeprefix("CASE\n").partition("\n\nCRITERION\n")
        shown[json.loads(criterion)["question"]] = (case, set(json.loads(case)))
    assert shown["Good tone?"] == shown["Good help?"]
    assert shown["Good path?"] == shown["Good tools?"]  # the trajectory is one prefix
    assert shown["Good tone?"][1] == {"prompt", "output"}
    assert shown["Good path?"][1] == {"prompt", "steps", "output"}
    assert shown["Good order?"][1] == {"prompt", "steps"}
    assert rows_in(tmp_path, "select count(*), count(score) from verdicts") == [(5, 5)]
    asked = len(judge.bodies)
    evaluated(tmp_path, run_id="again")
    assert len(judge.bodies) == asked == 5
    found = verify_ledger(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"))
    assert (found.finding_count, found.recomputed_count) == (0, 5)


@pytest.mark.nightly
def test_criteria_that_see_the_same_share_a_request(judge: LoopbackJudge, tmp_path: Path):
    (tmp_path / "judge.yaml").write_text("model: m\npacking: 4\n", encoding="utf-8")
    evaluated(tmp_path, str(tmp_path / "judge.yaml"))
    assert len(judge.bodies) == 3
    assert rows_in(tmp_path, "select count(*), count(score) from verdicts") == [(5, 5)]


@pytest.mark.nightly
def test_an_output_without_steps_is_unscored_with_the_reason(judge: LoopbackJudge, tmp_path: Path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"case_id": "c", "model": "m", "output": "Done."}\n', encoding="utf-8")
    publish(tmp_path / "rows.jsonl", tmp_path / "rubric.yaml", judge="m")
    reasons = rows_in(tmp_path, "select reason, count(*) from verdicts group by all order by all nulls first")
    assert reasons == [(None, 2), ("no_steps: found no steps, expected those of an agent", 3)]
    assert len(judge.bodies) == 2


@pytest.mark.nightly
def test_a_shortened_trajectory_is_told_to_the_judge_and_noted(judge: LoopbackJudge, tmp_path: Path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    steps = [{"kind": "tool", "name": "read", "output": "x" * 50_000}]
    row = {"case_id": "c", "model": "m", "output": "Done.", "steps": steps}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    publish(tmp_path / "rows.jsonl", tmp_path / "rubric.yaml", judge="m")
    assert sum("46,000 characters left out" in json.dumps(body) for body in judge.bodies) == 3
    ((note,),) = rows_in(tmp_path, "select notes from runs")
    assert "1 trajectory is shortened for the judge" in str(note)

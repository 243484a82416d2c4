"""An imported `trajectory_eval` on the rating page: marks of steps make the counts, numbers are number fields."""

from pathlib import Path

import pytest

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.importers.potato import read_potato
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.published_runs import publish
from tests.support.scored_lake import make_lake, write_scores
from tests.support.served_ratings import ORIGIN, RUN, Served, stepped_run

SCHEME = """
annotation_schemes:
  - annotation_type: trajectory_eval
    name: run_errors
    step_correctness: {labels: [Correct, Partially correct, Incorrect]}
    error_taxonomy:
      - {category: Tool use, types: [{name: Wrong tool}, {name: Wrong arguments}]}
      - {category: planning}
    severity_levels: [{name: Minor, weight: -1}, {name: Very bad, weight: -25}]
"""
RUBRIC = Rubric.model_validate(read_potato(SCHEME, "config.yaml").rubric)
COUNTS = ["tool_use_wrong_tool", "tool_use_wrong_arguments", "planning"]
NONE = {f"{kind}_{severity}": "0" for kind in COUNTS for severity in ("minor", "very_bad")}
STEPS = {
    "level.step_correctness.1": "correct",
    "level.step_correctness.2": "incorrect",
    "error.step_correctness.2": "tool_use/wrong_tool",
    "severity.step_correctness.2": "minor",
    "level.step_correctness.3": "incorrect",
    "error.step_correctness.3": "planning",
    "severity.step_correctness.3": "very_bad",
}


def rate(served: Served, fields: dict[str, str]) -> tuple[str, dict[str, str | None]]:
    """Rate the first sheet; returns its page and the levels of the counts in the lake."""
    served.enter("anna")
    served.client.get("/")
    page = served.client.get("/sheet/1").text
    sent = {"version": "0", "action": "submit", **fields}
    assert served.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN}).status_code == 303
    served.session.store_marks()
    with connect(served.lake, read_only=True) as connection:
        rows = connection.execute("select criterion_id, level_id from ratings where criterion_id <> 'step_correctness'")
        return page, dict(rows.fetchall())


def test_marks_of_steps_make_the_counts_and_the_score_of_the_output_follows(tmp_path: Path):
    lake = stepped_run(tmp_path, rubric_yaml(RUBRIC))
    with opened_session(lake, RUN, queue=Queue.random, count=1, overlap=1) as session:
        page, counts = rate(Served.of(lake, session), STEPS)
    assert [name for name in NONE if f"level.{name}" in page] == []
    assert counts == NONE | {"tool_use_wrong_tool_minor": "1", "planning_very_bad": "1"}
    publish(tmp_path / "outputs.jsonl", tmp_path / "rubric.yaml", run_id="run-2")
    with connect(lake, read_only=True) as connection:
        scores = connection.execute("select score from output_scores where run_id = 'run-2'").fetchall()
    assert scores == [(pytest.approx(0.74),)]  # (100 - 1 - 25) / 100


def test_many_numbers_are_a_number_field_where_no_steps_make_them(tmp_path: Path):
    lake = make_lake(tmp_path)
    write_scores(lake, RUN, RUBRIC, [{"case_id": "c1", "output_id": "o1", "scores": {}}])
    commit(lake, "text", lambda connection, _version: connection.execute("update outputs set output = 'Done.'"))
    with opened_session(lake, RUN, queue=Queue.random, count=1, overlap=1) as session:
        fields = {f"level.{name}": " 03" if "minor" in name else "3" for name in NONE}
        fields["level.step_correctness"] = "correct"
        left_out = {"level.planning_minor": "", "none.planning_minor": "yes"}
        page, counts = rate(Served.of(lake, session), fields | left_out)
    # 25 points an error: a start of 100 is used up by 4
    assert 'type="number" name="level.planning_minor" min="0" max="100"' in page
    assert page.count('type="radio" name="level.planning_very_bad"') == 6  # 0 to 4, and "does not apply"
    assert counts == dict.fromkeys([name for name in NONE if name != "planning_minor"], "3")

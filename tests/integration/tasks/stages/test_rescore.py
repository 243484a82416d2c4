"""What stands behind the verdicts of steps, preferences and similarities comes along with a rescored run."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from tests.support.loopback_judge import LoopbackJudge
from tests.support.preference_judge import write_preference
from tests.support.published_runs import publish
from tests.support.samples import write_lines
from tests.support.steps_judge import write_steps

RUBRIC = """
id: agents
version: 1.0.0
criteria:
  - {id: steps, description: Is the step right?, weight: 1, method: {type: judge, unit: step}}
  - {id: helps, description: Which answer helps more?, weight: 1, method: {type: preference, against: old}}
  - {id: alike, description: Is it like the reference?, weight: 1, method: {type: similarity}}
"""
LEFT_OUT = "  - {id: likewise, description: Is it like the reference?, weight: 1, method: {type: similarity}}\n"
COUNTS = "select run_id, count(*) from {} group by run_id order by run_id"


def _write(body: dict[str, Any]) -> str:
    return (write_steps if "\n\nSTEPS\n" in body["messages"][-1]["content"] else write_preference)(body)


@pytest.mark.nightly
def test_a_rescored_run_has_the_marks_of_steps_the_choices_and_the_similarities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    steps = [{"kind": "tool", "name": "search", "output": "wrong: a"}, {"kind": "model", "output": "Done."}]
    rows = [
        {"case_id": f"c{case}", "model": model, "prompt": "Do it.", "output": text, "reference": text, "steps": steps}
        for case in range(2)
        for model, text in (("old", f"a{case}"), ("new", f"a{case} *"))
    ]
    files = {name: tmp_path / name for name in ("rubric.yaml", "later.yaml", "judge.yaml")}
    files["rubric.yaml"].write_text(RUBRIC + LEFT_OUT, encoding="utf-8")
    files["later.yaml"].write_text(RUBRIC.replace("1.0.0", "1.1.0"), encoding="utf-8")
    files["judge.yaml"].write_text("model: m\nreplicates: 2\nseed: 7\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with LoopbackJudge() as judge:
        judge.writer = _write
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        publish(
            write_lines(tmp_path / "outputs.jsonl", rows),
            files["rubric.yaml"],
            judge=str(files["judge.yaml"]),
            run_id="first",
        )
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    rescore_run(RescoreRequest("first", str(files["later.yaml"]), lake, run_id="later"))
    with connect(find_lake(lake), read_only=True) as connection:
        found = {
            table: dict(connection.execute(COUNTS.format(table)).fetchall())
            for table in ("step_verdicts", "step_opinions", "judged_preferences", "similarities")
        }
    steps_count, pairs_count = 4 * 2, 4
    assert found == {
        "step_verdicts": dict.fromkeys(("first", "later"), steps_count),
        "step_opinions": dict.fromkeys(("first", "later"), 2 * steps_count),
        "judged_preferences": dict.fromkeys(("first", "later"), pairs_count),
        "similarities": {"first": 2 * 4, "later": 4},
    }

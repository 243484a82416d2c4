"""Forms of replies that a judge file asks for: flaws first, and text without a schema."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.pipeline import publish_evaluation
from gradebook.tasks.stages.submit import Stages
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - id: kind
    name: Kindness
    description: Is it kind?
    weight: 1
    levels: [{id: rude, score: 0}, {id: kind, score: 1}]
    method: {type: judge}
"""


def write(body: dict[str, Any]) -> str:
    """A reply that thinks aloud, with the label of the best level."""
    asked = json.loads(body["messages"][-1]["content"].rpartition("CRITERION\n")[2])
    reply = {"evidence": ["Hello"], "rationale": "It greets.", "level": asked["levels"][-1]["label"]}
    flaws = {"flaws": ["It is short"]} if "`flaws`" in body["messages"][0]["content"] else {}
    return f"I think of {{levels}} [two]. {json.dumps(flaws | reply)} Done {{}}."


@pytest.mark.slow
def test_a_run_begins_again_without_what_its_judge_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    outputs = write_lines(tmp_path / "outputs.jsonl", [{"case_id": "a", "model": "m", "output": "Hello {you}"}])
    address = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    request = EvaluationRequest(
        str(outputs), str(tmp_path / "rubric.yaml"), judge="m", lake=address, run_id="r", has_page=False
    )
    with LoopbackJudge() as judge:
        judge.refused_parameters = ("temperature",)
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        publish_evaluation(request, Stages())
        assert judge.request_count == 2
    with connect(find_lake(address), read_only=True) as connection:
        ((status, settings, notes),) = connection.execute("select status, settings, notes from runs").fetchall()
    assert (status, json.loads(settings)["judge"]["temperature"]) == ("published", None)
    assert any(note.endswith("refused the default, so it is asked with `temperature: null`") for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*matrix(["reply_format: text"]), "reply_format: text\nflaws_first: true"])
def test_a_reply_in_text_is_read_and_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: str):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "judge.yaml").write_text(f"model: m\n{settings}\n", encoding="utf-8")
    outputs = write_lines(tmp_path / "outputs.jsonl", [{"case_id": "a", "model": "m", "output": "Hello {you}"}])
    with LoopbackJudge() as judge:
        judge.writer = write
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        publish(outputs, tmp_path / "rubric.yaml", judge=str(tmp_path / "judge.yaml"))
        (body,) = judge.bodies
    assert "response_format" not in body
    assert '"name": "Kindness"' in body["messages"][-1]["content"]
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    with connect(lake, read_only=True) as connection:
        ((notes,),) = connection.execute("select notes from runs").fetchall()
        assert "replies of m were asked for with `reply_format: text`, in place of a schema" in notes
        ((level, rationale),) = connection.execute("select level_id, rationale from verdicts").fetchall()
    named = "Flaws: It is short. " if "flaws_first" in settings else ""
    assert (level, rationale) == ("kind", f"{named}It greets.")
    found = verify_ledger(lake)
    assert (found.finding_count, found.reread_count) == (0, 1)

"""`gradebook why`: a verdict traced back to what was sent, received and paid."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish
from tests.support.samples import query, write_lines, write_rubric

OWN = [{"id": "polite", "description": "Is it polite?", "method": {"type": "judge"}}]


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """A run of a plain judge and one of batched criteria; the messages that the first judge got."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    rows = [{"case_id": f"c{place}", "model": "m", "output": f"Answer {place}\nof two lines."} for place in range(2)]
    rows[0] |= {"criteria": OWN}
    outputs, rubric = write_lines(tmp_path / "outputs.jsonl", rows), write_rubric(tmp_path / "rubric.yaml")
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        publish(outputs, rubric, run_id="plain", judge="gpt-4o-mini")
        messages = [body["messages"] for body in judge.bodies]
        (tmp_path / "packed.yaml").write_text("{model: gpt-4o-mini, packing: 2}", encoding="utf-8")
        publish(outputs, rubric, run_id="packed", judge=str(tmp_path / "packed.yaml"))
    monkeypatch.chdir(tmp_path)
    return messages


@pytest.mark.nightly
def test_the_prompt_is_the_one_that_was_sent(gradebook, sent):
    found = gradebook("why", "plain", "c0", "--json").json["verdicts"]
    judged = {row["criterion_id"]: row for row in found if row["method"] == "judge"}
    assert sorted(judged) == ["clarity", "polite"]
    assert all(row["messages"] in sent for row in judged.values())
    clarity = judged["clarity"]
    assert json.loads(clarity["reply"])["rationale"] == clarity["rationale"] == "Because."
    assert (clarity["model_returned"], clarity["paid_by"]) == ("gpt-4o-mini-2026", "plain")
    assert clarity["cost_usd"] > 0
    (length,) = [row for row in found if row["criterion_id"] == "length"]
    assert length["settings"]["settings"] == {"min": 2, "max": 50}
    assert (length["messages"], length["why_no_messages"]) == (None, None)


@pytest.mark.nightly
def test_a_request_of_several_criteria_is_not_guessed(gradebook, sent):
    found = gradebook("why", "packed", "c1", "clarity", "--json").json["verdicts"]
    assert found[0]["messages"] is None
    assert found[0]["why_no_messages"].startswith("the request held further criteria")


LENGTH = """
id: short
version: 1.0.0
criteria:
  - {id: length, description: Short., method: {type: check, check: length_words, settings: {max: 3}}}
"""


def test_the_question_is_shown_and_what_outputs_share_is_said_once(gradebook, tmp_path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the fee?"}]
    rows = [{"case_id": "c", "model": model, "prompt": chat, "output": f"Five, {model}."} for model in "ab"]
    (tmp_path / "short.yaml").write_text(LENGTH, encoding="utf-8")
    publish(write_lines(tmp_path / "outputs.jsonl", rows), tmp_path / "short.yaml", run_id="two")
    assert "asked: (after 1 message) What is the fee?\n" in gradebook("why", "c").out
    screen = gradebook("why", "c", "length").out
    assert [screen.count(part) for part in ("verdict: ", "asked: ", "criterion: ", "method: ")] == [2, 1, 1, 1]


def test_the_worst_output_of_a_case_comes_first(gradebook, tmp_path):
    answers = {"a": "Yes.", "b": "One two three four five six."}
    rows = [{"case_id": "c", "model": model, "output": output} for model, output in answers.items()]
    (tmp_path / "short.yaml").write_text(LENGTH, encoding="utf-8")
    publish(write_lines(tmp_path / "outputs.jsonl", rows), tmp_path / "short.yaml", run_id="two")
    assert [row["model"] for row in gradebook("why", "two", "c", "--json").json["verdicts"]] == ["b", "a"]


def test_one_screen_has_all_of_it_and_a_wrong_name_is_told(gradebook, sent):
    screen = gradebook("why", "plain", "c1", "clarity").out
    parts = [line.partition(":")[0] for line in screen.splitlines() if not line.startswith(" ")]
    assert [*dict.fromkeys(parts)] == [
        *("verdict", "counts", "rationale", "output", "criterion", "level", "method", "judge", "price", "request"),
        *("sent", "reply", "rubric", "versions", "dataset"),
    ]
    assert "  of two lines." in screen
    assert "clarity" in gradebook("why", "plain", "c1").out
    for words in (("c1",), ("c1", "clarity")):  # of the latest run
        assert gradebook("why", *words, "--json").json == gradebook("why", "packed", *words, "--json").json
    assert "CASE: found none" in gradebook("why", "plain").err
    for words, said in ((("c9",), "no case or output 'c9' in run plain"), (("c1", "tone"), "'tone', expected one of")):
        refused = gradebook("why", "plain", *words)
        assert refused.code == 2
        assert said in refused.err


LISTING = """
id: listing
version: 1.0.0
criteria:
  - id: complete
    description: Which of the request's requirements are met?
    levels:
      - {id: gap, score: 0, description: One is missing.}
      - {id: all, score: 1, description: All are met.}
    method: {type: judge, lists_requirements: true}
  - id: kind
    description: Is it kind?
    levels: [{id: unkind, score: 0}, {id: kind, score: 1}]
    method: {type: judge}
"""
ENTRIES = [("name the capital", True, "Canberra"), ("name the year", False, "")]


def listing_reply(body: dict[str, Any]) -> str:
    """Reply by the schema of the request, batched or not, with a list where one is asked for."""
    schema = body["response_format"]["json_schema"]["schema"]
    batched = schema["properties"].get("judgments")
    reply = {"evidence": [], "rationale": "So."}
    reply["requirements"] = [{"requirement": text, "met": met, "quote": quote} for text, met, quote in ENTRIES]

    def judgment(shape: dict[str, Any]) -> dict[str, Any]:
        return {name: ({"level": shape["properties"]["level"]["enum"][0]} | reply)[name] for name in shape["required"]}

    if batched is None:
        return json.dumps(judgment(schema))
    return json.dumps({"judgments": {number: judgment(shape) for number, shape in batched["properties"].items()}})


def test_requirements_that_the_judge_lists_are_rows_and_lines(gradebook, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.chdir(tmp_path)
    outputs = write_lines(tmp_path / "outputs.jsonl", [{"case_id": "c", "model": "m", "output": "Canberra."}])
    (tmp_path / "rubric.yaml").write_text(LISTING, encoding="utf-8")
    (tmp_path / "packed.yaml").write_text("{model: gpt-4o, packing: 2}", encoding="utf-8")
    with LoopbackJudge() as judge:
        judge.writer = listing_reply
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        publish(outputs, tmp_path / "rubric.yaml", run_id="alone", judge="gpt-4o-mini")
        publish(outputs, tmp_path / "rubric.yaml", run_id="packed", judge=str(tmp_path / "packed.yaml"))
    rows = query(gradebook, "from listed_requirements order by run_id, position")
    assert [(row["run_id"], row["criterion_id"], row["requirement"], row["is_met"], row["quote"]) for row in rows] == [
        (run, "complete", text, is_met, quote or None) for run in ("alone", "packed") for text, is_met, quote in ENTRIES
    ]
    assert 'requirement: met: name the capital "Canberra"' in gradebook("why", "alone", "c", "complete").out
    assert gradebook("lake", "ledger", "verify").code == 0
    page = gradebook("report", "alone", "-o", "page.html")
    assert page.code == 0, page.err
    assert "<li>missing: name the year</li>" in (tmp_path / "page.html").read_text("utf-8")

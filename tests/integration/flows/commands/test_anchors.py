"""`gradebook judge anchors`: what a terminal and a program get, and the exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.published_runs import publish
from tests.support.samples import judged_criteria, write_outputs, write_rubric

GOOD, BAD = "It is understood at first reading.", "It can't be understood."


@pytest.mark.nightly
def test_a_set_is_made_listed_priced_and_asked(gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.chdir(tmp_path)
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        judge.writer = lambda body: level_reply(body, GOOD)
        outputs = write_outputs(tmp_path / "outputs.jsonl", 20, ("m",))
        publish(outputs, write_rubric(tmp_path / "rubric.yaml"), run_id="first", judge="gpt-4o-mini")
        made = gradebook("judge", "anchors", "make", "first", "--name", "set", "--stratify", "criterion,level")
        assert made.out == "set: 20 outputs, 20 anchors\n"
        assert "not asked yet" in gradebook("judge", "anchors", "list").out
        ask = ("judge", "anchors", "ask", "set", "--judge", "gpt-4o-mini", "--reference", "1", "--per-night", "20")
        assert gradebook(*ask, "--dry-run").out.startswith("20 questions, about $")
        first, second = (gradebook(*ask, "--date", f"2026-11-0{day}", "--json") for day in (1, 2))
        assert [night.json["criteria"][0]["state"] for night in (first, second)] == ["reference", "steady"]
        judge.writer = lambda body: level_reply(body, BAD)
        changed = gradebook(*ask, "--date", "2026-11-03")
    assert (first.code, second.code, changed.code) == (0, 0, 1)
    assert "the judge gpt-4o-mini changed" in changed.out
    refused = gradebook(*ask, "--date", "yesterday")
    assert (refused.code, "a date such as" in refused.err) == (2, True)
    assert gradebook("judge", "anchors", "ask", "sett", "--judge", "gpt-4o-mini").err.endswith("(the nearest is set)\n")


@pytest.mark.nightly
def test_a_judge_without_past_is_priced_and_all_that_it_was_asked_is_in_the_bill(
    gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.chdir(tmp_path)
    for name, criteria in (("rubric", ("kind", "brief", "odd")), ("anchored", ("kind", "brief"))):
        text = f"id: {name}\nversion: 1.0.0\ncriteria:{judged_criteria(*criteria)}"
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    outputs = write_outputs(tmp_path / "outputs.jsonl", 6, ("m",))
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        judge.writer = reply_without_some
        publish(outputs, tmp_path / "rubric.yaml", run_id="first", judge="gpt-4o-mini")
        made = gradebook("judge", "anchors", "make", "first", "--name", "set")
        assert made.out == "set: 6 outputs, 11 anchors\n"  # brief of one output and odd of all have no score
        assert "the first night asks one judge 36 questions; their price:" in made.err
        model = ("--judge", "gpt-4.1-mini")
        run = gradebook("evaluate", "outputs.jsonl", "--rubric", "anchored.yaml", *model, "--dry-run", "--json").json
        priced = gradebook("judge", "anchors", "ask", "set", *model, "--dry-run", "--json").json
        judge.writer, judge.faults = None, ["prose"]  # an unreadable reply, paid for and asked again
        judge.bodies.clear()
        asked = gradebook("judge", "anchors", "ask", "set", *model, "--json").json
    assert priced["question_count"] == len(judge.bodies) - 1 == 6 * 2 * 3
    assert priced["cost_usd"] == pytest.approx(3 * run["cost_usd"], rel=0.02)
    billed = {each["judge"]: each["billed_usd"] for each in gradebook("cost", "--json").json["by"]["judge"]}
    assert asked["cost_usd"] == pytest.approx(billed["gpt-4.1-mini"])
    assert "is stored; its later nights are compared with it (6 outputs, $" in asked["sentence"]


def reply_without_some(body: dict[str, Any]) -> str:
    """Reply that can't be read on odd, and on brief of one output."""
    text = json.dumps(body["messages"])
    is_lost = "Is it odd?" in text or ("Is it brief?" in text and "Answer 3 of" in text)
    return "nothing" if is_lost else level_reply(body, "Yes, it is.")

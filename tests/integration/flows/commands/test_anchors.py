"""`gradebook anchors`: what a terminal and a program get, and the exit codes."""

from pathlib import Path

import pytest

from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.published_runs import publish
from tests.support.samples import write_outputs, write_rubric

GOOD, BAD = "It is understood at first reading.", "It can't be understood."


def test_a_set_is_made_listed_priced_and_asked(gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.chdir(tmp_path)
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        judge.writer = lambda body: level_reply(body, GOOD)
        outputs = write_outputs(tmp_path / "outputs.jsonl", 20, ("m",))
        publish(outputs, write_rubric(tmp_path / "rubric.yaml"), run_id="first", judge="gpt-4o-mini")
        made = gradebook("anchors", "make", "first", "--name", "set", "--stratify", "criterion,level")
        assert made.out == "set: 20 outputs, 20 anchors\n"
        assert "not asked yet" in gradebook("anchors", "list").out
        ask = ("anchors", "ask", "set", "--judge", "gpt-4o-mini", "--reference", "1", "--per-night", "20")
        assert gradebook(*ask, "--dry-run").out.startswith("20 questions, about $")
        first, second = (gradebook(*ask, "--date", f"2026-11-0{day}", "--json") for day in (1, 2))
        assert [night.json["criteria"][0]["state"] for night in (first, second)] == ["reference", "steady"]
        judge.writer = lambda body: level_reply(body, BAD)
        changed = gradebook(*ask, "--date", "2026-11-03")
    assert (first.code, second.code, changed.code) == (0, 0, 1)
    assert "the judge gpt-4o-mini changed" in changed.out
    refused = gradebook(*ask, "--date", "yesterday")
    assert (refused.code, "a date such as" in refused.err) == (2, True)
    assert gradebook("anchors", "ask", "sett", "--judge", "gpt-4o-mini").err.endswith("(the nearest is set)\n")

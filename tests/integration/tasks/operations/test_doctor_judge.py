"""What the doctor finds of a judge's endpoint."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.operations.doctor.judge import examine_judge
from tests.support.loopback_judge import LoopbackJudge


def examined(monkeypatch: pytest.MonkeyPatch, judge: LoopbackJudge, name: str = "m") -> list[tuple[str, str]]:
    """Severity and sentence of each finding."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    return [(each.severity, each.found) for each in examine_judge(name)]


def test_an_endpoint_that_honours_all_is_said_to(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        judge.writer = lambda _body: '{"level": "A"}'
        found = examined(monkeypatch, judge)
    assert found[0] == ("ok", "json_schema is honoured")
    assert found[1][0] == "ok" and found[1][1].endswith("tokens of a repeated prompt came from the cache")
    assert "alternatives a token, expected more than 4" in found[2][1]  # the judge on loopback gives two
    assert judge.request_count == 3


def test_what_it_does_not_honour_is_a_note_with_the_fix(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        judge.writer, judge.has_logprobs = lambda _body: "A, I think", False
        found = examined(monkeypatch, judge)
    assert found[0] == ("note", "json_schema is not honoured: the reply is not the object asked for")
    assert found[2][0] == "note" and found[2][1].startswith("mode: logprobs can't be used")


def test_a_refused_key_and_a_judge_without_an_endpoint_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with LoopbackJudge(key="another") as judge:
        ((severity, words),) = examined(monkeypatch, judge)
        assert severity == "problem" and "does not accept the key" in words
        replies = tmp_path / "replies.jsonl"
        replies.write_text("", encoding="utf-8")
        with pytest.raises(InputError, match="expected a judge with an endpoint"):
            examined(monkeypatch, judge, f"replay:{replies}")

"""What the doctor finds of a judge's endpoint."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.operations.doctor.judge import AT_ONCE, examine_judge, judge_in_flight
from tests.support.loopback_judge import LoopbackJudge


def examined(monkeypatch: pytest.MonkeyPatch, judge: LoopbackJudge, name: str = "m") -> list[tuple[str, str]]:
    """Severity and sentence of each finding."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    return [(each.severity, each.found) for each in examine_judge(name)]


def test_an_endpoint_that_honours_all_is_said_to(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge(latency_s=0.3) as judge:
        judge.writer, judge.models = lambda _body: '{"level": "A"}', [{"id": "m", "max_model_len": 8192}]
        found = examined(monkeypatch, judge)
    assert found[0] == ("ok", "json_schema is honoured")
    assert found[1][0] == "ok" and found[1][1].endswith("tokens of a repeated prompt came from the cache")
    assert "alternatives a token, expected more than 4" in found[2][1]  # the judge on loopback gives two
    assert found[3] == ("ok", "8,192 tokens, of which a reply may take 1,024 (max_tokens)")
    assert found[4][0] == "note" and found[4][1].endswith("x as long as one; at most 32 are sent")
    assert judge.request_count == 3 + 1 + AT_ONCE


def test_what_it_does_not_honour_is_a_note_with_the_fix(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        judge.writer, judge.has_logprobs = lambda _body: "A, I think", False
        found = examined(monkeypatch, judge)
    assert found[0] == ("note", "json_schema is not honoured: the reply is not the object asked for")
    assert found[2][0] == "note" and found[2][1].startswith("mode: logprobs can't be used")
    assert found[3] == ("note", "the list of models lacks the model: longer prompts are refused when they are sent")


@pytest.mark.parametrize(("parameter", "remedy"), [("temperature", "`temperature: null`"), ("response_format", "text")])
def test_the_fix_is_one_of_what_is_refused(monkeypatch: pytest.MonkeyPatch, parameter: str, remedy: str):
    with LoopbackJudge() as judge:
        judge.refused_parameters = (parameter,)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        first, *_, pace = examine_judge("m")
    assert first.severity == "problem" and remedy in (first.mend or "")
    assert ("failed" in pace.found) == (parameter == "temperature")  # the short requests ask for no format


def test_a_server_that_cuts_prompts_is_said_to(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        judge.faults = ["usage too low"] * 3
        found = examined(monkeypatch, judge)
    assert found[1] == (
        "problem",
        "7 tokens counted of a prompt of more than 2,080 words: the count can't be true, or the prompt was cut",
    )


@pytest.mark.parametrize(
    ("together_s", "most", "severity", "mend"),
    [
        (1.5, 32, "note", "max_in_flight: 256 in the judge file"),  # as on a GPU
        (1.5, 256, "ok", None),
        (15.0, 32, "note", "max_in_flight: 4 in the judge file, or requests wait until they time out"),  # as on a CPU
        (15.0, 4, "ok", None),
    ],
)
def test_requests_in_flight_suit_the_endpoint(together_s: float, most: int, severity: str, mend: str | None):
    found = judge_in_flight(JudgeSettings(model="m", max_in_flight=most), 1.0, together_s)
    assert (found.severity, found.mend) == (severity, mend)


def test_a_refused_key_and_a_judge_without_an_endpoint_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with LoopbackJudge(key="another") as judge:
        ((severity, words),) = examined(monkeypatch, judge)
        assert severity == "problem" and "does not accept the key" in words
        replies = tmp_path / "replies.jsonl"
        replies.write_text("", encoding="utf-8")
        with pytest.raises(InputError, match="expected a judge with an endpoint"):
            examined(monkeypatch, judge, f"replay:{replies}")

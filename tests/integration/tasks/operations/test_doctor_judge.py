"""What the doctor finds of a judge's endpoint."""

import os
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.operations.doctor import judge as doctor
from gradebook.tasks.operations.doctor.judge import (
    AT_ONCE,
    examine_judge,
    examine_structure,
    judge_in_flight,
    structure_price,
    write_judge_file,
)
from tests.support.asked import CANARY, ask
from tests.support.loopback_anthropic import LoopbackAnthropic
from tests.support.loopback_judge import LoopbackJudge, object_reply


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


# -------- the file that works
def placed(monkeypatch: pytest.MonkeyPatch, judge: LoopbackJudge) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)


def in_json(body: dict[str, Any]) -> str:
    """Reply of a model that writes aloud unless it is held to a schema or to JSON."""
    return '{"level": "A"}' if "response_format" in body else 'Surely: {"level": "A"} it is.'


@pytest.mark.parametrize(
    ("refused", "written"),
    [
        ((), {}),
        (("temperature",), {"temperature": None}),
        (("temperature", "response_format"), {"temperature": None, "reply_format": "text"}),
    ],
)
def test_the_file_has_what_the_endpoint_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: tuple[str, ...], written: dict[str, Any]
):
    path = tmp_path / "judge.yaml"
    with LoopbackJudge(key=CANARY) as judge:
        placed(monkeypatch, judge)
        judge.refused_parameters, judge.writer = refused, in_json
        finding = write_judge_file("m", path)
        judge.writer = object_reply if "reply_format" in written else None
        settings = read_judge(str(path), os.environ)
        assert (finding.severity, settings) == ("ok", JudgeSettings(model="m", base_url=judge.base_url, **written))
        assert CANARY not in path.read_text()
        assert ask(judge, tmp_path, **settings.model_dump(exclude_unset=True))[0].status == "scored"


def test_the_strictest_form_that_it_honours_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with LoopbackJudge() as judge:
        placed(monkeypatch, judge)
        judge.writer = lambda body: '{"level": "A"}' if body.get("response_format") == {"type": "json_object"} else "A"
        write_judge_file("m", tmp_path / "judge.yaml")
    assert "reply_format: json_object\n" in (tmp_path / "judge.yaml").read_text()


def test_an_early_claude_is_written_with_its_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with LoopbackAnthropic(key=CANARY) as judge:
        judge.writer = lambda _: '{"level": "A"}'
        placed(monkeypatch, judge)
        first = f"model: claude-3-opus\nform: anthropic\nbase_url: {judge.base_url}\n"
        (tmp_path / "first.yaml").write_text(first)
        write_judge_file(str(tmp_path / "first.yaml"), tmp_path / "judge.yaml")
        settings = read_judge(str(tmp_path / "judge.yaml"), os.environ)
        expected = {"model": "claude-3-opus", "form": "anthropic", "base_url": judge.base_url, "reply_format": "tool"}
        assert settings == JudgeSettings(**expected)


def test_no_file_is_written_without_a_reply_or_over_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = tmp_path / "judge.yaml"
    with LoopbackJudge() as judge:
        placed(monkeypatch, judge)
        judge.writer = lambda _: "I would rather not say."
        finding = write_judge_file("m", path)
        assert (finding.severity, finding.found) == ("problem", "not written: no reply could be read, the last as text")
        assert not path.exists()
    path.write_text("model: mine\n")
    with pytest.raises(InputError, match="which exists"):
        write_judge_file("m", path)
    with pytest.raises(InputError, match="ends in .yaml"):
        write_judge_file("m", tmp_path / "judge.json")
    assert path.read_text() == "model: mine\n"


# -------- the form that holds
def test_the_strictest_form_that_twenty_replies_can_be_read_in_is_found(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        placed(monkeypatch, judge)
        judge.refused_parameters = ("temperature", "json_schema")
        judge.writer = lambda body: "bad" if "response_format" in body else f"So: {object_reply(body)}"
        price = structure_price("gpt-4o-mini")
        found = [(each.check, each.severity, each.found, each.mend) for each in examine_structure("gpt-4o-mini")]
        asked = judge.request_count
    assert price.startswith("gpt-4o-mini: 20 questions in each of 4 forms, the strictest first")
    assert "about $0.00" in price
    assert [(check.partition(": ")[2], severity) for check, severity, *_ in found] == [
        ("json_schema", "note"),
        ("json_object", "note"),
        ("tool", "ok"),
    ]
    assert found[0][2].startswith("0 of 20 replies can be read; ")
    read = "20 of 20 replies can be read, 20 of them no JSON as they stand"
    assert found[2][2:] == (read, "reply_format: tool in the judge file")
    assert asked == 2 + 20 + 20  # refused for the temperature, then for the form; twenty in each of two forms


def test_a_rate_limit_says_nothing_about_the_form_of_replies(monkeypatch: pytest.MonkeyPatch):
    with LoopbackJudge() as judge:
        placed(monkeypatch, judge)
        judge.retry_after, judge.faults = "0", ["429", "", "429"]
        (finding,) = examine_structure("gpt-4o-mini")
        monkeypatch.setattr(doctor, "MOST_ASKED_AGAIN", 0)
        judge.faults = ["", *["429"] * 19]
        (limited,) = examine_structure("gpt-4o-mini")
    assert (finding.severity, finding.found) == ("ok", "20 of 20 replies can be read")
    assert limited.severity == "problem" and "19 of 20 requests got no reply, the last: HTTP 429" in limited.found

"""Claude by its name, through Anthropic's Messages, against a server that refuses and counts as they do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_anthropic import LoopbackAnthropic
from tests.support.samples import judged_criteria, query, write_outputs, write_rubric

KEY = "sk-ant-canary-0123456789"
MODEL = "claude-sonnet-5"
pytestmark = pytest.mark.slow


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackAnthropic]:
    """Server in place of Anthropic's, by the user's settings file."""
    with LoopbackAnthropic(key=KEY) as server:
        path = tmp_path / "config" / "gradebook" / "settings.toml"
        path.parent.mkdir(parents=True, mode=0o700)
        path.write_text(f'[providers.anthropic]\nbase_url = "{server.base_url}"\n')
        path.chmod(0o600)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(variable, raising=False)
        yield server


@pytest.fixture
def run(evaluate: Callable[..., Any], claude: LoopbackAnthropic, tmp_path: Path) -> Callable[..., Any]:
    """Evaluate outputs by two models with one judged criterion."""

    def call(*words: str, count: int = 15, run_id: str = "r", model: str = MODEL) -> Any:
        write_outputs(tmp_path / "outputs.jsonl", count=count)
        write_rubric(tmp_path / "rubric.yaml")
        given = ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", model, "--run-id", run_id)
        finished = evaluate(*given, *words)
        assert KEY not in finished.out + finished.err
        return finished

    return call


def test_thirty_outputs_are_published_and_asked_once(run, claude: LoopbackAnthropic, gradebook):
    finished = run()
    assert finished.code == 0, finished.err
    rows = query(gradebook, "select status from verdicts where method = 'judge'")
    assert [row["status"] for row in rows] == ["scored"] * 30
    assert claude.request_count == 30
    assert {*claude.bodies[0]} == {"model", "max_tokens", "messages", "system", "output_config"}
    again = run(run_id="again")
    assert (again.code, claude.request_count) == (0, 30)


def test_the_case_is_paid_once_and_read_at_a_tenth(evaluate, claude: LoopbackAnthropic, gradebook, tmp_path: Path):
    words = [" ".join(f"w{case}x{place % 97}" for place in range(700)) for case in range(2)]
    rows = [{"case_id": f"c{case}", "model": "m", "prompt": "?", "output": text} for case, text in enumerate(words)]
    (tmp_path / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Three criteria have one level more, so other labels, and share the cache all the same.
    names = [f"c{number}" for number in range(8)]
    criteria = judged_criteria(*names).replace(
        "  levels: [{", "  levels: [{id: none, score: 0.5, description: So.}, {", 3
    )
    (tmp_path / "rubric.yaml").write_text(f"id: eight\nversion: 1.0.0\ncriteria:{criteria}")
    finished = evaluate(
        "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", MODEL, "--run-id", "r", "--budget-usd", "1"
    )
    assert finished.code == 0, finished.err
    (billed,) = query(
        gradebook,
        "select sum(cost_usd) as usd, sum(cached_tokens) as cached, sum(written_tokens) as written from judgments",
    )
    counts = {name: sum(usage[name] for usage in claude.usages) for name in claude.usages[0]}
    fresh, written, cached = (counts[f"{name}input_tokens"] for name in ("", "cache_creation_", "cache_read_"))
    assert (cached, written) == (billed["cached"], billed["written"])
    assert cached == 7 * written  # of each case: one writes it, seven read it
    # USD per million tokens: input 2, written 2.5, cached 0.2, output 10.
    assert billed["usd"] * 1e6 == pytest.approx(2 * fresh + 2.5 * written + 0.2 * cached + 10 * counts["output_tokens"])
    assert 2 * fresh + 2.5 * written + 0.2 * cached <= 0.35 * 2 * (fresh + written + cached)


def test_a_budget_holds_and_the_next_command_goes_on(run, claude: LoopbackAnthropic, gradebook):
    stopped = run("--budget-usd", "0.19")  # one reply may cost 0.17: 8,192 tokens at the dearest tier
    assert stopped.code == 3, stopped.err
    spent = claude.request_count
    assert 0 < spent < 30
    assert sum(usage["input_tokens"] * 2 + usage["output_tokens"] * 10 for usage in claude.usages) / 1e6 <= 0.19
    finished = run("--budget-usd", "5")
    assert (finished.code, claude.request_count) == (0, 30), finished.err


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("key", "invalid x-api-key: it does not accept the key in ANTHROPIC_API_KEY"),
        ("none", "found no key in ANTHROPIC_API_KEY, expected one"),
        ("model", "serves the model 'claude-sonnet-5'; set `model` to one that "),
        ("credit", "the quota is used up: add credit to the account"),
        ("spend", "the quota is used up: add credit to the account"),
    ],
)
def test_what_no_request_can_mend_is_one_sentence(run, claude: LoopbackAnthropic, monkeypatch, fault: str, said: str):
    if fault == "key":
        claude.key = "another"
    elif fault == "none":
        monkeypatch.delenv("ANTHROPIC_API_KEY")
    elif fault == "model":
        claude.model = "claude-opus-5"
    else:
        claude.faults = [fault] * 50
    finished = run(count=3)
    assert finished.code == (2 if fault == "none" else 3)
    assert len([line for line in finished.err.splitlines() if said in line]) == 1


def test_overload_refusal_and_a_cut_reply_are_each_what_they_are(
    run, claude: LoopbackAnthropic, gradebook, tmp_path: Path
):
    with (tmp_path / "config" / "gradebook" / "settings.toml").open("a") as file:
        file.write("settings = {max_in_flight = 1}\n")  # one question after the other meets the script
    claude.faults, claude.retry_after = ["529", "429", "length", "", "refusal", "long"], "0.1"
    finished = run(count=2)
    assert finished.code == 0, finished.err
    rows = query(gradebook, "select status, count(*) as n from judgments group by 1 order by 1")
    assert {row["status"]: row["n"] for row in rows} == {"refused": 1, "scored": 2, "truncated": 1}
    limits = sorted({body["max_tokens"] for body in claude.bodies})
    assert limits == [8_192, 32_768]  # the cut reply is asked for once more, with room to think
    reasons = query(gradebook, "select reason from verdicts where method = 'judge' and status <> 'scored' order by 1")
    assert [row["reason"].partition(":")[0] for row in reasons] == ["endpoint_error", "refused"]


def test_an_early_model_is_asked_with_a_tool(run, claude: LoopbackAnthropic, gradebook):
    finished = run(count=2, model="claude-3-opus")
    assert finished.code == 0, finished.err
    assert "asked with `reply_format: tool`" in finished.out + finished.err
    assert claude.bodies[-1]["tool_choice"] == {"type": "tool", "name": "judgment"}
    asked = claude.request_count
    assert run(count=3, run_id="later", model="claude-3-opus").code == 0
    assert claude.request_count == asked + 2  # a later run in the lake begins with what was learned

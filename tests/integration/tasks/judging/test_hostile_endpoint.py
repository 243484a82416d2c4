"""Endpoints that deceive: nothing wrong is scored, no key is written, and the budget holds."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached
from tests.support.asked import CANARY, ask_some, journaled
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_outputs, write_rubric

BUDGET_USD = 0.02  # a request is reserved 0.008 at most
# What the endpoint does to each reply, and the statuses that verdicts may have then.
DECEITS = {
    "usage too low": {"scored"},  # the verdict is sound, and counts at its worst cost
    "usage huge": {"scored"},
    "usage too high": {"scored"},  # ends the run: no budget can be enforced
    "another model": {"scored"},  # noted with each judgment
    "300 MB": {"unscored"},
    "open for ever": {"unscored"},
    "liar": {"unscored"},  # words of another text
    "echo": {"unscored"},  # headers with the key
    "wrong enum": {"unscored"},
}


@pytest.mark.parametrize("deceit", DECEITS)
def test_nothing_wrong_is_scored_no_key_is_written_and_the_budget_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deceit: str
):
    with LoopbackJudge(key=CANARY) as judge:
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        judge.faults = [deceit] * 99
        asked = ask_some(
            judge, tmp_path, range(4), BUDGET_USD, max_in_flight=1, timeout_s=1 if "ever" in deceit else 30
        )
        billed_usd = (judge.prompt_tokens + judge.completion_tokens) * 1e-6
    assert {answer.status for answer in asked.answers} <= DECEITS[deceit]
    assert asked.fault is None or CANARY not in str(asked.fault)
    assert billed_usd <= BUDGET_USD
    rows = [] if deceit == "open for ever" else journaled(tmp_path).to_pylist()
    assert all(row["status"] != "scored" for row in rows) or "scored" in DECEITS[deceit]
    assert CANARY not in "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    if deceit == "another model":
        assert {row["model_returned"] for row in rows} == {"a-cheaper-one"}
    if deceit.startswith("usage"):
        assert isinstance(asked.fault, BudgetReached)
        assert not any(row["cost_usd"] for row in rows if deceit != "usage too high")


def test_a_model_that_changes_in_mid_run_is_noted(evaluate, judge: LoopbackJudge, tmp_path: Path):
    write_outputs(tmp_path / "outputs.jsonl", count=3)
    write_rubric(tmp_path / "rubric.yaml")
    judge.faults = [""] * 3 + ["another model"] * 99
    files = (str(tmp_path / "outputs.jsonl"), "--rubric", str(tmp_path / "rubric.yaml"))
    finished = evaluate(*files, "--judge", "m", "--run-id", "r")
    assert finished.code == 0, finished.err
    assert "replies name another model: a-cheaper-one" in finished.out + finished.err

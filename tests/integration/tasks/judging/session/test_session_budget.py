"""A session holds its budget."""

import json
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached, JudgeSettingsError
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import PRICE, ask, journaled, make_question
from tests.support.loopback_judge import LoopbackJudge


def test_the_budget_holds_with_many_in_flight(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.01
    with pytest.raises(BudgetReached):
        ask(judge, tmp_path, count=200, budget_usd=0.03, max_tokens=10)
    spent = (judge.prompt_tokens + judge.completion_tokens) * 1e-6
    assert 0.02 < spent <= 0.03


def test_the_budget_holds_over_sessions_with_a_hanging_endpoint(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["hang"] * 100
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_attempts=2, timeout_s=0.3, max_tokens=10)
    record = tmp_path / "budget.jsonl"
    for first in (0, 50):
        with (
            open_session(
                settings, journal_folder=tmp_path, run_id="run", money=Money(0.03, record), price=PRICE
            ) as session,
            pytest.raises(BudgetReached),
        ):
            session.ask(map(make_question, range(first, first + 50)), id)
    worst_usd = [note["worst_usd"] for note in map(json.loads, record.read_text().splitlines()) if "worst_usd" in note]
    assert len(worst_usd) == judge.request_count > 0
    assert sum(worst_usd) <= 0.03


def test_a_budget_needs_a_price(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match="prices"):
        open_session(JudgeSettings(model="m"), journal_folder=tmp_path, run_id="run", money=Money(1.0)).__enter__()


def test_what_was_out_when_the_budget_ended_is_journaled(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.01
    with pytest.raises(BudgetReached):
        ask(judge, tmp_path, count=200, budget_usd=0.03, max_tokens=10)
    assert journaled(tmp_path).num_rows == judge.request_count

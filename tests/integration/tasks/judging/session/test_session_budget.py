"""A session holds its budget."""

import json
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached, JudgeSettingsError
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import PRICE, ask, ask_some, journaled, make_question
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
    assert len(worst_usd) >= judge.request_count > 0  # one may end before the server sees it
    assert sum(worst_usd) <= 0.03


def test_a_budget_needs_a_price(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match="prices"):
        open_session(JudgeSettings(model="m"), journal_folder=tmp_path, run_id="run", money=Money(1.0)).__enter__()


def test_what_was_out_when_the_budget_ended_is_journaled(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.01
    with pytest.raises(BudgetReached):
        ask(judge, tmp_path, count=200, budget_usd=0.03, max_tokens=10)
    assert journaled(tmp_path).num_rows == judge.request_count


@pytest.mark.parametrize("fault", ["500", "503", "504", "408", "409", "filtered"])
def test_a_failure_that_may_have_been_billed_counts_at_its_worst(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault] * 99
    # At most 0.0081 a request: two fit into 0.02.
    asked = ask_some(judge, tmp_path, range(9), budget_usd=0.02, max_in_flight=1, patience_s=60)
    assert (type(asked.fault), judge.request_count) == (BudgetReached, 2)


@pytest.mark.parametrize("fault", ["400", "413", "429"])
def test_a_request_that_was_refused_before_work_costs_nothing(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.retry_after = "0"
    judge.faults = ["", *[fault] * 2]  # at their worst, 0.0081 each, they would leave no room for a third
    asked = ask_some(judge, tmp_path, range(6), budget_usd=0.02, max_in_flight=1)
    assert asked.fault is None
    assert judge.request_count >= 6


def test_without_a_budget_a_storm_of_errors_is_asked_through(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["500"] * 3
    answers = ask(judge, tmp_path, count=4, max_attempts=6, patience_s=60)
    assert [answer.status for answer in answers] == ["scored"] * 4


def test_the_first_reply_dearer_than_its_reservation_ends_the_run(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["usage too high"] * 99
    asked = ask_some(judge, tmp_path, range(30), budget_usd=100.0)
    assert (type(asked.fault), judge.request_count) == (BudgetReached, 1)
    assert "could cost at most" in str(asked.fault)
    assert journaled(tmp_path)["cost_usd"].to_pylist() == [pytest.approx(1000.001)]

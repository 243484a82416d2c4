"""Another address of the same model: its own price, and its own log-probabilities or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError
from tests.support.asked import CANARY, ask, ask_some, journaled
from tests.support.loopback_judge import LoopbackJudge


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", "OPENAI_API_KEY@127.0.0.1")
    with LoopbackJudge(key=CANARY) as server:
        yield server


def at(server: LoopbackJudge, **more: object) -> dict[str, object]:
    return {"base_url": server.base_url, "key": "env:OPENAI_API_KEY", **more}


def test_a_fallback_without_logprobs_is_paid_for_one_reply(judge: LoopbackJudge, other: LoopbackJudge, tmp_path: Path):
    judge.faults, other.has_logprobs, other.latency_s = ["fine"] * 3 + ["quota"] * 99, False, 0.02
    asked = ask_some(judge, tmp_path, range(20), mode="logprobs", fallbacks=[at(other)])
    assert isinstance(asked.fault, EndpointUnavailable)
    assert f"{other.base_url}: m gives no log-probabilities" in str(asked.fault)
    assert (len(asked.answers), other.request_count) == (3, 1)


def test_where_the_first_has_no_logprobs_the_fallback_is_asked(
    judge: LoopbackJudge, other: LoopbackJudge, tmp_path: Path
):
    judge.has_logprobs = False
    answers = ask(judge, tmp_path, count=9, mode="logprobs", fallbacks=[at(other)])
    assert {answer.status for answer in answers} == {"scored"}
    assert (judge.request_count, other.request_count) == (1, 9)


def test_a_reply_of_a_fallback_costs_its_own_price(judge: LoopbackJudge, other: LoopbackJudge, tmp_path: Path):
    judge.faults = ["quota"]
    prices = {"input_usd": 3, "output_usd": 3}
    ask(judge, tmp_path, fallbacks=[at(other, prices=prices)])
    (row,) = journaled(tmp_path).to_pylist()
    assert row["cost_usd"] == pytest.approx((other.prompt_tokens + other.completion_tokens) * 3e-6)


def test_a_reply_of_a_fallback_without_a_price_has_an_unknown_cost(
    judge: LoopbackJudge, other: LoopbackJudge, tmp_path: Path
):
    judge.faults = ["quota"]
    ask(judge, tmp_path, fallbacks=[at(other)])
    assert journaled(tmp_path)["cost_usd"].to_pylist() == [None]


def test_a_budget_needs_a_price_at_each_address(judge: LoopbackJudge, tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match="found no price of m at http://127.0.0.1:9/v1, expected one"):
        ask(judge, tmp_path, budget_usd=1.0, fallbacks=[{"base_url": "http://127.0.0.1:9/v1"}])

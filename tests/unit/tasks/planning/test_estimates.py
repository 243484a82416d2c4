"""Estimates: what past replies teach, and how often the range holds what comes."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Prices
from gradebook.tasks.planning.estimates import Completions, Estimate, History, Prompts, estimate_questions, read_history

START = datetime(2026, 11, 1, tzinfo=UTC)
JUDGE = JudgeSettings(model="m", prices=Prices(input_usd=1, cached_usd=0.5, output_usd=4))
EMPTY = dict.fromkeys(JUDGMENT_SCHEMA.names) | {
    "run_id": "r",
    "judge": "m",
    "replicate": 0,
    "status": "scored",
    "prompt_digest": "p",
    "prompt_bytes": 4_000,
    "prompt_tokens": 1_000,
    "cached_tokens": 0,
    "completion_tokens": 100,
    "latency_ms": 1.0,
    "attempts": 1,
}


@pytest.fixture
def ledger() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def learn(
    ledger: duckdb.DuckDBPyConnection,
    *rows: dict[str, Any],
    missing: tuple[str, ...] = (),
    judge: JudgeSettings = JUDGE,
    runs: Mapping[str, Any] = MappingProxyType({}),
) -> History:
    """The history of a ledger with these replies; the later in the list, the later asked."""
    judgments = [
        EMPTY | {"judgment_id": str(n), "request_key": str(n), "output_id": str(n), "criterion_id": "tone"} | row
        for n, row in enumerate(rows)
    ]
    for n, judgment in enumerate(judgments):
        judgment["asked_at"] = START + timedelta(seconds=n)
    ledger.register("judgments", pa.Table.from_pylist(judgments, JUDGMENT_SCHEMA).drop_columns(list(missing)))
    settings = [json.dumps({"judge": identity}) for identity in runs.values()]
    ledger.register(
        "runs", pa.table({"run_id": pa.array(runs, pa.string()), "settings": pa.array(settings, pa.string())})
    )
    return read_history(ledger, judge)


def test_bytes_per_token_are_a_ratio_of_sums(ledger):
    rows = ({"prompt_bytes": 8_000, "prompt_tokens": 3_000}, {"prompt_bytes": 2_000, "prompt_tokens": 1_000})
    prompts = learn(ledger, *rows).prompts
    assert prompts is not None
    assert prompts.tokens_per_byte == 0.4  # 4,000 / 10,000


def test_completion_tokens_are_known_by_criterion_and_in_all(ledger):
    rows = [{"completion_tokens": 80}, {"completion_tokens": 120}, {"completion_tokens": 400, "criterion_id": "depth"}]
    history = learn(ledger, *rows)
    assert {name: past.mean for name, past in history.completions.items()} == {"tone": 100, "depth": 400}
    assert history.all_completions is not None
    assert history.all_completions.mean == 200


def test_a_question_that_was_asked_twice_took_what_both_replies_took(ledger):
    history = learn(ledger, {"request_key": "k", "output_id": "o"}, {"request_key": "k", "output_id": "o"})
    assert (history.completions["tone"].question_count, history.completions["tone"].mean) == (1, 200)


def test_other_judges_recorded_replies_and_uncounted_ones_teach_nothing(ledger):
    recorded = {"attempts": 0, "prompt_bytes": None}
    assert learn(ledger, {"judge": "n"}, recorded, {"prompt_tokens": 0}) == History()


def test_replies_of_batches_and_flex_say_nothing_of_the_tier_online(ledger):
    assert learn(ledger, {"service_tier": "batch"}, {"service_tier": "flex"}).service_tier is None


def test_texts_of_feedback_do_not_count_as_judgments(ledger):
    history = learn(ledger, {}, {"criterion_id": "(feedback)", "completion_tokens": 900})
    assert history.all_completions is not None
    assert (history.all_completions.mean, history.completions["(feedback)"].mean) == (100, 900)


def test_the_first_question_about_an_output_is_not_cached_as_the_later_ones_are(ledger):
    rows = [{"output_id": "o", "cached_tokens": cached} for cached in (0, 800, 900)]
    history = learn(ledger, *rows)
    assert (history.first_cached_rate, history.later_cached_rate) == (0, 0.85)


def test_a_lake_of_an_earlier_gradebook_has_no_bytes_and_no_tiers(ledger):
    history = learn(ledger, {}, missing=("prompt_bytes", "service_tier"))
    assert (history.prompts, history.completions["tone"].mean) == (None, 100)


def test_without_a_past_a_token_has_four_bytes_and_a_reply_120_tokens():
    estimate = estimate_questions(History(), JUDGE, "tone", 10, 40_000)
    # 10,000 x 1e-6 + 1,200 x 4e-6
    assert (estimate.prompt_tokens, estimate.completion_tokens) == (10_000, 1_200)
    assert estimate.cost_usd == pytest.approx(0.0148)


def test_without_a_past_the_range_is_wide():
    estimate = estimate_questions(History(), JUDGE, "tone", 10, 40_000)
    assert estimate.cost_low_usd is not None
    assert estimate.cost_high_usd is not None
    # down: 40,000 / 5 and 60 a reply: hypot(0.002, 0.0024); up: 40,000 / 3 and 240 a reply: hypot(0.003333, 0.0048)
    assert estimate.cost_low_usd == pytest.approx(0.0148 - 0.0031241)
    assert estimate.cost_high_usd == pytest.approx(0.0148 + 0.0058440, abs=2e-6)


def test_nothing_to_ask_costs_nothing():
    assert estimate_questions(History(), JUDGE, "tone", 0, 0) == Estimate()


def test_an_unknown_price_has_no_range():
    estimate = estimate_questions(History(), JudgeSettings(model="my-own-7b", base_url="http://a.test"), "t", 9, 900)
    assert (estimate.cost_usd, estimate.cost_low_usd, estimate.cost_high_usd) == (None, None, None)


def test_later_criteria_are_cheaper_where_the_endpoint_caches():
    history = History(later_cached_rate=0.8)
    first, later = (
        estimate_questions(history, JUDGE, "t", 10, 40_000, is_first=is_first) for is_first in (True, False)
    )
    # 8,000 tokens x 0.5e-6 less
    assert (first.cached_tokens, later.cached_tokens) == (0, 8_000)
    assert first.cost_usd == pytest.approx((later.cost_usd or 0) + 0.004)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [({"service_tier": "flex"}, 0.5), ({"mode": "batch"}, 0.5), ({"service_tier": "priority"}, 2)],
)
def test_the_tier_that_is_asked_for_is_estimated(changes: dict[str, Any], factor: float):
    judge = JudgeSettings.model_validate(JUDGE.model_dump() | changes)
    assert estimate_questions(History(), judge, "t", 10, 40_000).cost_usd == pytest.approx(factor * 0.0148)


def test_where_no_tier_is_asked_for_it_is_the_one_that_replies_named(ledger):
    history = learn(ledger, {"service_tier": "priority"}, {"service_tier": "priority"}, {"service_tier": "default"})
    assert estimate_questions(history, JUDGE, "t", 10, 40_000).cost_usd == pytest.approx(
        2 * (10_000e-6 + 10 * 100 * 4e-6)
    )


def draw(rng: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """Bytes, prompt tokens and completion tokens of questions; lognormal replies, as judges write them."""
    prompt_bytes = rng.integers(3_000, 6_000, count)
    prompt_tokens = prompt_bytes * rng.normal(0.25, 0.02, count)
    return prompt_bytes, prompt_tokens, rng.lognormal(4.5, 0.6, count)


def learn_drawn(prompt_bytes: Any, prompt_tokens: Any, completions: Any) -> History:
    count, rate = len(completions), prompt_tokens.sum() / prompt_bytes.sum()
    prompts = Prompts(count, rate, prompt_bytes.mean(), (prompt_tokens - rate * prompt_bytes).std(ddof=1))
    low, high = np.quantile(completions, [0.1, 0.9])
    past = Completions(count, completions.mean(), completions.std(ddof=1), low, high)
    return History({"tone": past}, past, prompts)


@pytest.mark.parametrize(("past_count", "new_count"), [(20, 200), (200, 20), (200, 2_000), (2_000, 200)])
def test_the_range_holds_four_sums_of_five(past_count: int, new_count: int):
    rng, held_count = np.random.default_rng(54), 0
    for _ in range(1_000):
        history = learn_drawn(*draw(rng, past_count))
        prompt_bytes, prompt_tokens, completions = draw(rng, new_count)
        estimate = estimate_questions(history, JUDGE, "tone", new_count, int(prompt_bytes.sum()))
        paid_usd = prompt_tokens.sum() * 1e-6 + completions.sum() * 4e-6
        held_count += (estimate.cost_low_usd or 0) <= paid_usd <= (estimate.cost_high_usd or 0)
    assert 740 <= held_count <= 860


def test_the_range_of_a_sum_is_narrower_than_that_of_one():
    history = learn_drawn(*draw(np.random.default_rng(5), 10_000))

    def width(count: int) -> float:
        estimate = estimate_questions(history, JUDGE, "tone", count, count * 4_500)
        return ((estimate.cost_high_usd or 0) - (estimate.cost_low_usd or 0)) / (estimate.cost_usd or 1)

    assert width(100) == pytest.approx(width(1) / 10, rel=0.1)  # sqrt(100)


def test_a_criterion_without_a_past_has_the_range_of_one_reply():
    past = Completions(100, 100.0, 30.0, 60.0, 140.0)
    history = History({}, past, Prompts(100, 0.25, 4_000, 0.0))
    estimate = estimate_questions(history, JUDGE, "new", 1_000, 4_000_000)
    # 1e6 x 1e-6 + 1e5 x 4e-6 = 1.4; 40 tokens a reply more or less: 1,000 x 40 x 4e-6 = 0.16
    assert (estimate.cost_low_usd, estimate.cost_high_usd) == (pytest.approx(1.24), pytest.approx(1.56))


@pytest.mark.parametrize(("effort", "tokens"), [(None, 520), ("none", 120), ("low", 320), ("xhigh", 6520)])
def test_a_model_that_reasons_is_expected_to_do_so_until_it_has_a_past(effort: str | None, tokens: int):
    judge = JudgeSettings(model="gpt-5-mini", reasoning_effort=effort)
    assert estimate_questions(History(), judge, "c", 10, 1000).completion_tokens == 10 * tokens


@pytest.mark.parametrize(
    ("effort", "mean"),
    # At low 300 (200 reasoned), at high 2,100 (2,000), of a run that is not there 300; at another effort the three
    # texts of 100 and the usual reasoning: 400, and none at `none`.
    [("low", 300), ("high", 1_200), ("medium", 500), ("none", 100)],
)
def test_what_a_model_reasons_is_learned_by_effort(ledger, effort: str, mean: float):
    judge = JudgeSettings(model="m", reasoning_effort=effort)
    rows = [
        {"run_id": "at-low", "completion_tokens": 300, "reasoning_tokens": 200},
        {"run_id": "of-panel", "completion_tokens": 2_100, "reasoning_tokens": 2_000},
        {"run_id": "of-panel", "completion_tokens": 300, "reasoning_tokens": 200, "judge": "n"},
    ]
    high = JudgeSettings(model="m", reasoning_effort="high").identity
    runs = {
        "at-low": JudgeSettings(model="m", reasoning_effort="low").identity,
        "of-panel": {"kind": "panel", "members": [{"model": "n", "reasoning_effort": "low"}, high]},
    }
    if effort == "high":
        rows.append({"run_id": "gone", "completion_tokens": 300, "reasoning_tokens": 200})
    history = learn(ledger, *rows, judge=judge, runs=runs)
    assert estimate_questions(history, judge, "tone", 10, 40_000).completion_tokens == 10 * mean

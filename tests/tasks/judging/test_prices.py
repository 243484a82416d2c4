"""Prices: known, one's own, or unknown, which is not free."""

import pytest

from tasks.judging.prices import Price, Usage, cost_usd, find_price, worst_cost_usd
from tasks.judging.settings import JudgeSettings, Prices

TIERED = JudgeSettings(
    model="gemini-2.5-pro", base_url="https://generativelanguage.googleapis.com/v1beta/openai"
)  # 1.25 and 10 USD a million tokens, 2.5 and 15 above 200,000 tokens of prompt
PRICE = Price(input_usd=2e-6, cached_usd=1e-6, output_usd=8e-6)


def test_the_list_price_of_a_known_model_is_found():
    price = find_price(JudgeSettings(model="gpt-4o-mini"))
    assert price is not None
    assert price.input_usd > price.cached_usd > 0


def test_a_gateway_sells_a_makers_own_model_at_its_list_price():
    settings = JudgeSettings(model="gpt-4o-mini", base_url="http://gateway.internal/v1")
    assert find_price(settings) == find_price(JudgeSettings(model="gpt-4o-mini"))


def test_an_unknown_model_has_no_price():
    assert find_price(JudgeSettings(model="my-own-7b", base_url="http://127.0.0.1:9/v1")) is None


def test_ones_own_price_comes_first():
    prices = Prices(input_usd=2, cached_usd=1, output_usd=8)
    assert find_price(JudgeSettings(model="gpt-4o-mini", prices=prices)) == PRICE


def test_an_unknown_price_makes_an_unknown_cost():
    assert cost_usd(None, Usage(1, 0, 1)) is None


def test_cached_tokens_cost_their_own_price():
    # 600 x 2e-6 + 400 x 1e-6 + 50 x 8e-6 = 0.0012 + 0.0004 + 0.0004
    assert cost_usd(PRICE, Usage(1000, 400, 50)) == pytest.approx(0.002)


def test_the_worst_case_takes_nothing_for_cached():
    # 1000 x 2e-6 + 100 x 8e-6
    assert worst_cost_usd(PRICE, 1000, 100) == pytest.approx(0.0028)


@pytest.mark.parametrize(
    ("prompt_tokens", "expected_usd"),
    [
        (1_000, 0.00225),  # 1,000 x 1.25e-6 + 100 x 10e-6
        (200_000, 0.251),  # 200,000 x 1.25e-6 + 100 x 10e-6
        (200_001, 0.5015025),  # 200,001 x 2.5e-6 + 100 x 15e-6
    ],
)
def test_a_request_costs_what_its_own_prompt_length_costs(prompt_tokens: int, expected_usd: float):
    assert cost_usd(find_price(TIERED), Usage(prompt_tokens, 0, 100)) == pytest.approx(expected_usd)


def test_many_short_requests_are_not_one_long_one():
    # 1,000 requests of 1,000 and 100 tokens: 1e6 x 1.25e-6 + 1e5 x 10e-6
    assert cost_usd(find_price(TIERED), Usage(1_000_000, 0, 100_000), request_count=1_000) == pytest.approx(2.25)


def test_the_worst_case_is_the_dearest_tier():
    # 1,000 x 2.5e-6 + 100 x 15e-6
    assert worst_cost_usd(find_price(TIERED), 1_000, 100) == pytest.approx(0.004)

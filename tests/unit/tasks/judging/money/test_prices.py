"""Prices: known, one's own, or unknown, which is not free."""

from datetime import UTC, datetime, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.prompts.media import read_media
from gradebook.rubrics.prompts.media_kinds import MOST_IMAGE_TOKENS
from gradebook.rubrics.prompts.prompt import Case, render_messages
from gradebook.tasks.judging import prices
from gradebook.tasks.judging.prices import (
    MEDIA_BYTES_PER_TOKEN,
    MESSAGE_OVERHEAD_TOKENS,
    Price,
    Usage,
    cost_usd,
    find_price,
    least_prompt_tokens,
    least_tokens,
    most_tokens,
    nearest_model,
    price_list,
    prompt_bytes,
    unpriced_notes,
    worst_cost_usd,
)
from gradebook.tasks.judging.settings.files import validate_settings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Prices
from tests.support.asked import TONE
from tests.support.law_over import law_over
from tests.support.media_samples import SOUND, chat, coded, image_part, png

TIERED = JudgeSettings(
    model="gemini-2.5-pro", base_url="https://generativelanguage.googleapis.com/v1beta/openai"
)  # 1.25 and 10 USD a million tokens, 2.5 and 15 above 200,000 tokens of prompt
PRICE = Price(input_usd=2e-6, cached_usd=1e-6, output_usd=8e-6)


def test_the_list_price_of_a_known_model_is_found():
    price = find_price(JudgeSettings(model="gpt-4o-mini"))
    assert price is not None
    assert price.input_usd > price.cached_usd > 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gpt4o-mini", "gpt-4o-mini"),
        ("claude-sonet-4-5", "claude-sonnet-4-5"),
        ("gpt-4o-mini", None),  # has a price
        ("our-own-judge", None),
    ],
)
def test_a_model_named_almost_right_is_recognised(typed, meant):
    assert nearest_model(JudgeSettings(model=typed)) == meant


def test_a_gateway_sells_a_makers_own_model_at_its_list_price():
    settings = JudgeSettings(model="gpt-4o-mini", base_url="http://gateway.internal/v1")
    assert find_price(settings) == find_price(JudgeSettings(model="gpt-4o-mini"))


@pytest.mark.parametrize("hour", [0, 2, 12, 20])
def test_a_price_that_depends_on_the_hour_is_the_highest_at_any_hour(monkeypatch: pytest.MonkeyPatch, hour: int):
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime(2026, 11, 30, hour, tzinfo=tz)

    monkeypatch.setattr(prices, "datetime", Clock)
    settings = JudgeSettings(model="deepseek-chat", base_url="https://api.deepseek.com/v1")
    price = find_price(settings)
    assert price is not None
    assert (price.input_usd * 1e6, price.output_usd * 1e6) == (pytest.approx(0.27), pytest.approx(1.1))


PLACES = {"AWS_REGION": "us-east-1", "GOOGLE_CLOUD_LOCATION": "us-central1", "GOOGLE_CLOUD_PROJECT": "p", "HOME": "/"}


@law_over(
    ("judge", "input_usd", "cached_rate", "written_rate"),
    [
        ("claude-sonnet-5", 2.0, 0.1, 1.25),
        ("bedrock/anthropic.claude-sonnet-5", 2.2, 0.1, 1.25),
        ("bedrock/openai.gpt-oss-120b", 0.15, 1, 1.25),  # no price of a cache: read in full, written at the most
        ("grok-4", 3.0, 0.25, 1.25),
        ("vertex/google/gemini-2.5-flash", 0.3, 0.1, 1.25),
        ("together/meta-llama/Llama-3.3-70B-Instruct-Turbo", 0.88, 1, 1.25),
    ],
)
def test_a_cache_costs_what_its_provider_lists(judge: str, input_usd: float, cached_rate: float, written_rate: float):
    price = find_price(validate_settings(JudgeSettings, {"model": judge}, PLACES, source=judge))
    assert price is not None
    assert price.input_usd * 1e6 == pytest.approx(input_usd)
    assert (price.cached_usd, price.written_usd) == pytest.approx(
        (price.input_usd * cached_rate, price.input_usd * written_rate)
    )


def test_the_list_of_prices_has_a_day_that_is_past():
    assert "2026-01-01" < price_list()["newest"] <= datetime.now(UTC).date().isoformat()


def test_an_unknown_model_has_no_price():
    assert find_price(JudgeSettings(model="my-own-7b", base_url="http://127.0.0.1:9/v1")) is None


def test_ones_own_price_comes_first():
    prices = Prices(input_usd=2, cached_usd=1, output_usd=8)
    assert find_price(JudgeSettings(model="gpt-4o-mini", prices=prices)) == PRICE


def test_ones_own_price_comes_before_what_the_endpoint_charged():
    usage = Usage(1_000_000, 0, 0, stated_usd=0.5)
    own = find_price(JudgeSettings(model="m", prices=Prices(input_usd=2, output_usd=2)))
    assert (cost_usd(own, usage), cost_usd(None, usage), cost_usd(PRICE, usage)) == (2, 0.5, 0.5)


def test_an_unknown_price_makes_an_unknown_cost():
    assert cost_usd(None, Usage(1, 0, 1)) is None


def test_cached_tokens_cost_their_own_price():
    # 600 x 2e-6 + 400 x 1e-6 + 50 x 8e-6 = 0.0012 + 0.0004 + 0.0004
    assert cost_usd(PRICE, Usage(1000, 400, 50)) == pytest.approx(0.002)


def test_tokens_written_to_the_cache_cost_a_quarter_more():
    # 600 x 2e-6 + 400 x 2.5e-6 + 50 x 8e-6 = 0.0012 + 0.001 + 0.0004
    assert cost_usd(PRICE, Usage(1000, 0, 50, written_tokens=400)) == pytest.approx(0.0026)


def test_tokens_of_sound_have_a_price_of_their_own():
    # gpt-audio is listed at 2.50 and 32 USD a million: 600 x 2.5e-6 + 400 x 32e-6 = 0.0015 + 0.0128
    price = find_price(JudgeSettings(model="gpt-audio"))
    assert cost_usd(price, Usage(1000, 0, 0, audio_tokens=400)) == pytest.approx(0.0143)


def test_without_one_they_cost_what_text_does():
    assert cost_usd(PRICE, Usage(1000, 0, 50, audio_tokens=400)) == cost_usd(PRICE, Usage(1000, 0, 50))


@law_over(
    ("tier", "factor"),
    [("flex", 0.5), ("batch", 0.5), ("default", 1), ("standard", 1), (None, 1), ("priority", 2), ("Flex", 0.5)],
)
def test_a_request_costs_what_the_tier_of_its_reply_costs(tier: str | None, factor: float):
    assert cost_usd(PRICE, Usage(1000, 400, 50), tier=tier) == pytest.approx(factor * 0.002)


def test_an_unknown_tier_costs_what_the_dearest_does():
    assert cost_usd(PRICE, Usage(1000, 400, 50), tier="turbo") == pytest.approx(0.004)


def test_ones_own_tiers_come_first():
    price = find_price(JudgeSettings(model="m", prices=Prices(input_usd=2, output_usd=8, tiers={"Priority": 1.7})))
    assert price is not None
    assert (price.factor("priority"), price.factor("flex"), price.factor("turbo")) == (1.7, 0.5, 1.7)


@law_over(
    ("tier_asked", "expected_usd"),
    [
        ("default", 0.0033),  # 1000 x 2.5e-6, all of it written to the cache, + 100 x 8e-6
        ("flex", 0.0033),  # it may come at the default tier
        ("priority", 0.0066),
        ("auto", 0.0066),  # what the project is set to
        (None, 0.0066),
        ("batch", 0.00165),
    ],
)
def test_the_worst_case_is_the_dearest_tier_that_may_come(tier_asked: str | None, expected_usd: float):
    assert worst_cost_usd(PRICE, 1000, 100, tier_asked) == pytest.approx(expected_usd)


@given(
    tokens=st.tuples(*[st.integers(0, 300_000)] * 4),
    tier_asked=st.sampled_from((None, "auto", "default", "flex", "priority")),
    tier=st.sampled_from((None, "default", "standard", "flex", "batch")),
    is_tiered=st.booleans(),
)
def test_nothing_costs_more_than_its_worst_case(
    tokens: tuple[int, int, int, int], tier_asked: str | None, tier: str | None, is_tiered: bool
):
    price = find_price(TIERED) if is_tiered else PRICE
    paid_usd = cost_usd(price, Usage(*tokens), tier=tier)
    assert paid_usd is not None
    assert paid_usd <= worst_cost_usd(price, tokens[0], tokens[2], tier_asked) * (1 + 1e-12)


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


def test_the_worst_case_is_the_price_of_the_longest_prompts():
    # 1,000 x 2.5e-6 x 1.25 + 100 x 15e-6
    price = Price(1.25e-6, 1e-6, 10e-6, tiers=((200_000, Price(2.5e-6, 2e-6, 15e-6)),))
    assert worst_cost_usd(price, 1_000, 100, "default") == pytest.approx(0.004625)


def test_the_most_tokens_of_a_prompt_are_its_bytes():
    # [{"content":"abc"}] has 19 bytes, {} has 2
    assert most_tokens([{"content": "abc"}], {}) == 19 + 2 + MESSAGE_OVERHEAD_TOKENS


def test_an_image_that_the_endpoint_fetches_costs_the_most_that_any_does():
    parts = [image_part(""), image_part("https://a.test/b.png")]
    bare = most_tokens([{"role": "user", "content": [image_part(""), image_part("")]}], {})
    assert most_tokens([{"role": "user", "content": parts}], {}) == bare > 2 * MOST_IMAGE_TOKENS


def test_an_image_and_a_sound_are_not_counted_by_their_bytes():
    texts = read_media(
        chat(image_part(f"data:image/png;base64,{coded(png() + bytes(9_000_000))}")), "file:a.wav", lambda *_: SOUND
    )
    messages = render_messages(Case(texts.prompt, texts.output, media=texts.media), TONE, "0" * 32)
    plain = render_messages(Case(texts.prompt, texts.output), TONE, "0" * 32)
    # The picture's 4 tiles and the sound's 2 s; the words that announce them take less than 1,000.
    most, usual = 25_501 + 2 * 50 * 60, (1_445 + 32) * MEDIA_BYTES_PER_TOKEN
    assert most < most_tokens(messages, {}) - most_tokens(plain, {}) < most + 1_000
    assert usual < prompt_bytes(messages, {}) - prompt_bytes(plain, {}) < usual + 1_000


@law_over(
    ("text", "expected"),
    [
        ("", 0),
        ("one two three four five six", 3),  # 27 letters: 27 // 8
        ("a b c d e f g h i j k l m n o p", 3),  # 31 letters
        ("=" * 10_000, 1),  # a repetition may be a few tokens
        (" " * 10_000, 0),
        ("これは日本語の文です。", 1),  # 11 letters, one word
    ],
)
def test_no_tokenizer_makes_fewer_tokens_of_a_text(text: str, expected: int):
    assert least_tokens(text) == expected


def test_the_least_tokens_of_a_prompt_are_those_of_its_texts_alone():
    parts = [{"type": "text", "text": "one two three four five six"}, image_part(coded(png(512, 512)))]
    assert least_prompt_tokens([{"content": "one two three four"}, {"content": parts}, {}]) == 5  # 2 + 3


def test_a_model_without_a_price_is_named_with_the_one_that_may_be_meant():
    models = [JudgeSettings(model=name) for name in ("gpt4o-mini", "gpt-4o-mini", "house-model")]
    assert unpriced_notes(models) == (
        "no price of the judge gpt4o-mini; did you mean gpt-4o-mini?",
        "no price of the judge house-model",
    )

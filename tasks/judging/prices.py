"""What a request costs, and at most could cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import orjson
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import ModelPrice, TieredPrices

from tasks.judging.settings import JudgeSettings, Prices

TOKENS_A_PRICE = 1_000_000
MESSAGE_OVERHEAD_TOKENS = 64  # role markers and the like, which are not in the text
# Models sold under these names are their makers' alone, so a gateway in front of them asks the list price or so.
LIST_PRICE_PROVIDERS = ("openai", "anthropic")


@dataclass(frozen=True, slots=True)
class Price:
    """USD a token."""

    input_usd: float
    cached_usd: float
    output_usd: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; cached_tokens are part of prompt_tokens."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


def find_price(settings: JudgeSettings) -> Price | None:
    """The user's own price, else the list price of the model; None where there is none: unknown is not free."""
    if settings.prices is not None:
        return _own_price(settings.prices)
    usage = PricedUsage(input_tokens=1, output_tokens=1)
    try:
        return _list_price(calc_price(usage, settings.model, provider_api_url=settings.base_url).model_price)
    except LookupError:
        pass
    for provider in LIST_PRICE_PROVIDERS:
        try:
            return _list_price(calc_price(usage, settings.model, provider_id=provider).model_price)
        except LookupError:
            continue
    return None


def _own_price(prices: Prices) -> Price:
    cached_usd = prices.input_usd if prices.cached_usd is None else prices.cached_usd
    return Price(prices.input_usd / TOKENS_A_PRICE, cached_usd / TOKENS_A_PRICE, prices.output_usd / TOKENS_A_PRICE)


def _list_price(price: ModelPrice) -> Price | None:
    if price.input_mtok is None or price.output_mtok is None:
        return None
    cached = price.input_mtok if price.cache_read_mtok is None else price.cache_read_mtok
    return Price(_usd_a_token(price.input_mtok), _usd_a_token(cached), _usd_a_token(price.output_mtok))


def _usd_a_token(price: Decimal | TieredPrices) -> float:
    """The dearest tier, where long prompts cost more: a budget has to hold for them too."""
    dearest = max(price.base, *(tier.price for tier in price.tiers)) if isinstance(price, TieredPrices) else price
    return float(dearest) / TOKENS_A_PRICE


def cost_usd(price: Price | None, usage: Usage) -> float | None:
    """What a request cost; None where the price is unknown."""
    if price is None:
        return None
    fresh_tokens = max(0, usage.prompt_tokens - usage.cached_tokens)
    return (
        fresh_tokens * price.input_usd
        + usage.cached_tokens * price.cached_usd
        + usage.completion_tokens * price.output_usd
    )


def most_tokens(messages: Sequence[dict[str, str]], schema: object) -> int:
    """An upper bound of a prompt's tokens: no tokenizer makes more tokens than there are bytes."""
    return len(orjson.dumps(messages)) + len(orjson.dumps(schema)) + MESSAGE_OVERHEAD_TOKENS


def worst_cost_usd(price: Price | None, prompt_tokens: int, max_tokens: int) -> float:
    """The most that a request can cost; 0 where the price is unknown."""
    if price is None:
        return 0.0
    return prompt_tokens * max(price.input_usd, price.cached_usd) + max_tokens * price.output_usd

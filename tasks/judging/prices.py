"""What a request costs, and at most could cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

_Unit = Decimal | TieredPrices  # USD a million tokens


@dataclass(frozen=True, slots=True)
class Price:
    """USD a token. Where long prompts cost more: tiers, each with the prompt tokens it begins above, ascending."""

    input_usd: float
    cached_usd: float
    output_usd: float
    tiers: tuple[tuple[int, "Price"], ...] = ()

    def at(self, prompt_tokens: int) -> "Price":
        """The price of all tokens of a request with a prompt of that length."""
        reached = [price for start, price in self.tiers if prompt_tokens > start]
        return reached[-1] if reached else self


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
    units = (price.input_mtok, cached, price.output_mtok)
    starts = {tier.start for unit in units if isinstance(unit, TieredPrices) for tier in unit.tiers}
    tiers = tuple((start, _tier_price(*units, start + 1)) for start in sorted(starts))
    return replace(_tier_price(*units, 0), tiers=tiers)


def _tier_price(fresh: _Unit, cached: _Unit, output: _Unit, prompt_tokens: int) -> Price:
    return Price(
        _usd_a_token(fresh, prompt_tokens), _usd_a_token(cached, prompt_tokens), _usd_a_token(output, prompt_tokens)
    )


def _usd_a_token(price: _Unit, prompt_tokens: int) -> float:
    """The price in the tier that a prompt of that length falls into."""
    if isinstance(price, TieredPrices):
        reached = [tier.price for tier in price.tiers if prompt_tokens > tier.start]  # ascending
        price = reached[-1] if reached else price.base
    return float(price) / TOKENS_A_PRICE


def cost_usd(price: Price | None, usage: Usage, request_count: int = 1) -> float | None:
    """What a request cost, or that many of about the same length; None where the price is unknown."""
    if price is None:
        return None
    tier = price.at(usage.prompt_tokens // max(1, request_count))
    fresh_tokens = max(0, usage.prompt_tokens - usage.cached_tokens)
    prompt_usd = fresh_tokens * tier.input_usd + usage.cached_tokens * tier.cached_usd
    return prompt_usd + usage.completion_tokens * tier.output_usd


def most_tokens(messages: Sequence[dict[str, str]], schema: object) -> int:
    """An upper bound of a prompt's tokens: no tokenizer makes more tokens than there are bytes."""
    return len(orjson.dumps(messages)) + len(orjson.dumps(schema)) + MESSAGE_OVERHEAD_TOKENS


def worst_cost_usd(price: Price | None, prompt_tokens: int, max_tokens: int) -> float:
    """The most that a request can cost, at the dearest tier; 0 where the price is unknown."""
    if price is None:
        return 0.0
    tiers = [price, *(tier for _, tier in price.tiers)]
    input_usd = max(max(tier.input_usd, tier.cached_usd) for tier in tiers)
    return prompt_tokens * input_usd + max_tokens * max(tier.output_usd for tier in tiers)

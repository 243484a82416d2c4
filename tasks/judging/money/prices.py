"""What a request costs, and at most could cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import orjson
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import ModelPrice, TieredPrices

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.prompts.media_parts import PartCost, part_cost
from gradebook.tasks.judging.settings.judge import Address, Fallback, JudgeSettings, Prices

TOKENS_A_PRICE = 1_000_000
MESSAGE_OVERHEAD_TOKENS = 64  # role markers and the like, which are not in the text
BYTES_PER_TOKEN = 4.0  # of text, where nothing tells better
MEDIA_BYTES_PER_TOKEN = 4  # what a picture or a sound counts as where prompts are measured in bytes
CACHE_WRITE_FACTOR = 1.25  # of the input price, where no price of its own is listed
# What the endpoint's tiers cost, as a multiple of the list price.
TIER_FACTORS: Mapping[str, float] = MappingProxyType(
    {"default": 1.0, "standard": 1.0, "auto": 1.0, "flex": 0.5, "batch": 0.5, "priority": 2.0}
)
# Who asks for one of these is never given a dearer one than the default. `auto` is what the project is set to.
BOUNDED_TIERS = ("default", "standard", "flex")
# Models sold under these names are their makers' alone, so a gateway in front of them asks the list price or so.
LIST_PRICE_PROVIDERS = ("openai", "anthropic")

_Unit = Decimal | TieredPrices  # USD a million tokens


@dataclass(frozen=True, slots=True)
class Price:
    """USD a token. Where long prompts cost more: tiers, each with the prompt tokens it begins above, ascending.

    write_usd: of a token that is written to the prefix cache; None: CACHE_WRITE_FACTOR x input_usd. tier_factors: what
    the endpoint's service tiers cost, as multiples. audio_usd: of a token of sound; None: as input_usd.
    """

    input_usd: float
    cached_usd: float
    output_usd: float
    tiers: tuple[tuple[int, "Price"], ...] = ()
    write_usd: float | None = None
    tier_factors: Mapping[str, float] = field(default_factory=lambda: dict(TIER_FACTORS))
    audio_usd: float | None = None

    @property
    def written_usd(self) -> float:
        """The price of a token that is written to the prefix cache."""
        return CACHE_WRITE_FACTOR * self.input_usd if self.write_usd is None else self.write_usd

    @property
    def heard_usd(self) -> float:
        """The price of a token of sound."""
        return self.input_usd if self.audio_usd is None else self.audio_usd

    def factor(self, tier: str | None) -> float:
        """What a service tier multiplies the price by; None: the endpoint names none. An unknown one is the dearest."""
        if tier is None:
            return self.tier_factors["default"]
        return self.tier_factors.get(tier.strip().lower(), max(self.tier_factors.values()))

    def worst_factor(self, tier_asked: str | None) -> float:
        """The most that the tier of a reply can multiply the price by. tier_asked: None where none was."""
        if tier_asked == "batch":
            return self.factor(tier_asked)
        if tier_asked in BOUNDED_TIERS:
            return max(self.factor(tier) for tier in BOUNDED_TIERS)
        return max(self.tier_factors.values())

    def at(self, prompt_tokens: int) -> "Price":
        """The price of all tokens of a request with a prompt of that length."""
        reached = [price for start, price in self.tiers if prompt_tokens > start]
        return reached[-1] if reached else self


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. Part of prompt_tokens: cached_tokens, read from the prefix cache, written_tokens, written
    to it, and audio_tokens, of sounds.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0
    audio_tokens: int = 0


def find_price(settings: JudgeSettings, address: Address | None = None) -> Price | None:
    """The user's own price, else the list price of the model; None where there is none: unknown is not free.

    address: where it is asked, if not at the judge's own; one's own price for that place comes first.
    """
    prices = (address.prices if isinstance(address, Fallback) else None) or settings.prices
    if prices is not None:
        return _own_price(prices)
    base_url = (address or settings).base_url
    usage = PricedUsage(input_tokens=1, output_tokens=1)
    try:
        return _list_price(calc_price(usage, settings.model, provider_api_url=base_url).model_price)
    except LookupError:
        pass
    for provider in LIST_PRICE_PROVIDERS:
        try:
            return _list_price(calc_price(usage, settings.model, provider_id=provider).model_price)
        except LookupError:
            continue
    return None


def refuse_unpriced(settings: JudgeSettings, price: Price | None) -> None:
    """Raise `JudgeSettingsError` where a budget can't be held to, as the price at one of the addresses is not known.

    price: at the judge's own address.
    """
    for address in settings.addresses:
        if (price if address is settings else find_price(settings, address)) is None:
            place = "" if address is settings else f" at {address.base_url}"
            raise JudgeSettingsError(
                "--budget-usd",
                f"no price of {settings.model}{place}",
                "one: give `prices` (input_usd, output_usd a million tokens) in a judge file, or no budget",
            )


def _own_price(prices: Prices) -> Price:
    cached_usd = prices.input_usd if prices.cached_usd is None else prices.cached_usd
    return Price(
        prices.input_usd / TOKENS_A_PRICE,
        cached_usd / TOKENS_A_PRICE,
        prices.output_usd / TOKENS_A_PRICE,
        tier_factors={**TIER_FACTORS, **{tier.lower(): factor for tier, factor in prices.tiers.items()}},
    )


def _list_price(price: ModelPrice) -> Price | None:
    if price.input_mtok is None or price.output_mtok is None:
        return None
    cached = price.input_mtok if price.cache_read_mtok is None else price.cache_read_mtok
    units = (price.input_mtok, cached, price.output_mtok, price.cache_write_mtok, price.input_audio_mtok)
    starts = {tier.start for unit in units if isinstance(unit, TieredPrices) for tier in unit.tiers}
    tiers = tuple((start, _length_price(*units, start + 1)) for start in sorted(starts))
    return replace(_length_price(*units, 0), tiers=tiers)


def _length_price(
    fresh: _Unit, cached: _Unit, output: _Unit, written: _Unit | None, audio: _Unit | None, prompt_tokens: int
) -> Price:
    return Price(
        _usd_a_token(fresh, prompt_tokens),
        _usd_a_token(cached, prompt_tokens),
        _usd_a_token(output, prompt_tokens),
        write_usd=None if written is None else _usd_a_token(written, prompt_tokens),
        audio_usd=None if audio is None else _usd_a_token(audio, prompt_tokens),
    )


def _usd_a_token(price: _Unit, prompt_tokens: int) -> float:
    """The price in the tier that a prompt of that length falls into."""
    if isinstance(price, TieredPrices):
        reached = [tier.price for tier in price.tiers if prompt_tokens > tier.start]  # ascending
        price = reached[-1] if reached else price.base
    return float(price) / TOKENS_A_PRICE


def cost_usd(price: Price | None, usage: Usage, request_count: int = 1, *, tier: str | None = None) -> float | None:
    """What a request cost, or that many of about the same length; None where the price is unknown.

    tier: the service tier that the reply names, not the one that was asked for.
    """
    if price is None:
        return None
    unit = price.at(usage.prompt_tokens // max(1, request_count))
    cached_tokens = min(usage.cached_tokens, usage.prompt_tokens)
    written_tokens = min(usage.written_tokens, usage.prompt_tokens - cached_tokens)
    fresh_tokens = usage.prompt_tokens - cached_tokens - written_tokens
    heard_tokens = min(usage.audio_tokens, fresh_tokens)
    prompt_usd = (
        (fresh_tokens - heard_tokens) * unit.input_usd
        + heard_tokens * unit.heard_usd
        + cached_tokens * unit.cached_usd
        + written_tokens * unit.written_usd
    )
    return price.factor(tier) * (prompt_usd + usage.completion_tokens * unit.output_usd)


def prompt_bytes(messages: Sequence[Mapping[str, Any]], schema: object) -> int:
    """Bytes of a prompt: the messages, and the schema of the reply.

    A picture or a sound counts by the tokens that it usually takes: its own bytes say nothing of them.
    """
    costs = _media_costs(messages)
    usual_tokens = sum(cost.usual_tokens for cost in costs)
    return _text_bytes(messages, schema, costs) + usual_tokens * MEDIA_BYTES_PER_TOKEN


def most_tokens(messages: Sequence[Mapping[str, Any]], schema: object) -> int:
    """An upper bound of a prompt's price in tokens of text: no tokenizer makes more of them than there are bytes.

    Pictures and sounds are billed by their size and length: see `media_kinds` for what they may cost at most.
    """
    costs = _media_costs(messages)
    return _text_bytes(messages, schema, costs) + MESSAGE_OVERHEAD_TOKENS + sum(cost.most_tokens for cost in costs)


def _text_bytes(messages: Sequence[Mapping[str, Any]], schema: object, costs: Sequence[PartCost]) -> int:
    schema_bytes = 0 if schema is None else len(orjson.dumps(schema))
    return len(orjson.dumps(messages)) + schema_bytes - sum(cost.byte_count for cost in costs)


def _media_costs(messages: Sequence[Mapping[str, Any]]) -> list[PartCost]:
    contents = [message.get("content") for message in messages]  # a user's chat has messages without any
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [cost for part in parts if isinstance(part, dict) and (cost := part_cost(part)) is not None]


def worst_cost_usd(price: Price | None, prompt_tokens: int, max_tokens: int, tier_asked: str | None = None) -> float:
    """The most that a request can cost; 0 where the price is unknown.

    It covers the price of the longest prompts, a prompt that is written to the cache whole, and the dearest tier that a
    reply may name.
    """
    if price is None:
        return 0.0
    units = [price, *(unit for _, unit in price.tiers)]
    input_usd = max(max(unit.input_usd, unit.cached_usd, unit.written_usd) for unit in units)
    output_usd = max(unit.output_usd for unit in units)
    return price.worst_factor(tier_asked) * (prompt_tokens * input_usd + max_tokens * output_usd)

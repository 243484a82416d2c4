"""Cost and worst cost of a request."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import orjson

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.prompts.media import PartCost, part_cost
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Address, Fallback, Prices
from gradebook.tasks.judging.settings.provider_table import price_list_at

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

    _Unit = Decimal | TieredPrices  # USD per million tokens

TOKENS_PER_PRICE = 1_000_000
MESSAGE_OVERHEAD_TOKENS = 64  # role markers and the like, not part of the text
BYTES_PER_TOKEN = 4.0  # of text, without a better estimate
CHARACTERS_PER_TOKEN = 8  # of text, at most: twice the usual
MEDIA_BYTES_PER_TOKEN = 4  # bytes counted per token of images and sounds
CACHE_WRITE_FACTOR = 1.25  # of the input price, if no price is listed
# Prices of service tiers, as a multiple of the list price.
TIER_FACTORS: Mapping[str, float] = MappingProxyType(
    {"default": 1.0, "standard": 1.0, "auto": 1.0, "flex": 0.5, "batch": 0.5, "priority": 2.0}
)
# Requests for these tiers are never served at a higher price than the default. `auto` depends on the project.
BOUNDED_TIERS = ("default", "standard", "flex")
# Only their makers sell these models, so a gateway in front of them charges about the list price.
LIST_PRICE_PROVIDERS = ("openai", "anthropic")
NAMED_PROVIDERS = ("openai", "anthropic", "google", "mistral", "deepseek", "x-ai")  # makers, whose names are typed
NEAR = 0.85  # likeness of a mistyped name to the name that was meant


@dataclass(frozen=True, slots=True)
class Price:
    """Price in USD per token. tiers: prices of long prompts, each with the number of prompt tokens it starts above,
    ascending.

    write_usd: per token written to the prefix cache; None: CACHE_WRITE_FACTOR x input_usd. tier_factors: prices of the
    endpoint's service tiers, as multiples. audio_usd: per audio token; None: input_usd. is_own: the user's, which comes
    before the cost that an endpoint states.
    """

    input_usd: float
    cached_usd: float
    output_usd: float
    tiers: tuple[tuple[int, "Price"], ...] = ()
    write_usd: float | None = None
    tier_factors: Mapping[str, float] = field(default_factory=lambda: dict(TIER_FACTORS))
    audio_usd: float | None = None
    is_own: bool = field(default=False, compare=False)

    @property
    def written_usd(self) -> float:
        """Price of a token written to the prefix cache."""
        return CACHE_WRITE_FACTOR * self.input_usd if self.write_usd is None else self.write_usd

    @property
    def heard_usd(self) -> float:
        """Price of an audio token."""
        return self.input_usd if self.audio_usd is None else self.audio_usd

    def factor(self, tier: str | None) -> float:
        """Price multiple of a service tier; None: the endpoint named none. An unknown tier costs the highest
        multiple.
        """
        if tier is None:
            return self.tier_factors["default"]
        return self.tier_factors.get(tier.strip().lower(), max(self.tier_factors.values()))

    def worst_factor(self, tier_asked: str | None) -> float:
        """Highest price multiple of a reply's tier. tier_asked: None if none was requested."""
        if tier_asked == "batch":
            return self.factor(tier_asked)
        if tier_asked in BOUNDED_TIERS:
            return max(self.factor(tier) for tier in BOUNDED_TIERS)
        return max(self.tier_factors.values())

    def at(self, prompt_tokens: int) -> "Price":
        """Price of all tokens of a request with a prompt of this length."""
        reached = [price for start, price in self.tiers if prompt_tokens > start]
        return reached[-1] if reached else self


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request.

    Part of prompt_tokens: cached_tokens (read from the prefix cache), written_tokens (written to it), audio_tokens.
    Part of completion_tokens: reasoning_tokens. stated_usd: what the endpoint says that it charged.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0
    audio_tokens: int = 0
    reasoning_tokens: int = 0
    stated_usd: float | None = None


def embedding_price(settings: JudgeSettings) -> Price | None:
    """Price of an embedder, as `find_price`; vectors are not priced by their length."""
    return find_price(settings, is_embedding=True)


def find_price(settings: JudgeSettings, address: Address | None = None, *, is_embedding: bool = False) -> Price | None:
    """The user's own price, else the list price of the model; None if there is neither: unknown is not free.

    address: where the request is sent, if not the judge's own; the user's price for that address comes first.
    is_embedding: a model without a price of output tokens will do. The output of a decision model is free.
    """
    price = _find_price(settings, address, is_embedding=is_embedding or settings.is_decision)
    return replace(price, output_usd=0.0) if price is not None and settings.is_decision else price


def _find_price(settings: JudgeSettings, address: Address | None, *, is_embedding: bool) -> Price | None:
    prices = (address.prices if isinstance(address, Fallback) else None) or settings.prices
    if prices is not None:
        return _own_price(prices)
    base_url = (address or settings).base_url
    try:
        return _list_price(_listed_price(settings.model, provider_api_url=base_url), is_embedding)
    except LookupError:
        pass
    sought = [(settings.model, maker) for maker in LIST_PRICE_PROVIDERS]
    if (seller := price_list_at(base_url)) is not None:  # at Vertex a name has its maker first, at Bedrock no version
        names = (settings.model, settings.model.rpartition("/")[2], f"{settings.model}-1:0")
        sought = [*((name, seller) for name in names), *sought]
    for model, provider in sought:
        try:
            return _list_price(_listed_price(model, provider_id=provider), is_embedding)
        except LookupError:
            continue
    return None


def _listed_price(model: str, **provider: str) -> "ModelPrice":
    """Price of a model in the list. Of prices that differ by the hour, the highest: a run may last into any hour.

    provider: `provider_id` or `provider_api_url`. Raises `LookupError` for a model that is not in the list.
    """
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price
    from genai_prices.types import TimeOfDateConstraint

    usage = PricedUsage(input_tokens=1, output_tokens=1)
    now = datetime.now(UTC)
    listed = calc_price(usage, model, **provider, genai_request_timestamp=now)  # type: ignore[call-overload]
    prices = listed.model.prices if isinstance(listed.model.prices, list) else []
    hours = [price.constraint for price in prices if isinstance(price.constraint, TimeOfDateConstraint)]
    moments = [datetime.combine(now, hour.start_time) for hour in hours]
    others = [calc_price(usage, model, **provider, genai_request_timestamp=at) for at in moments]  # type: ignore[call-overload]
    return cast("ModelPrice", max([listed, *others], key=lambda price: price.total_price).model_price)


def price_list() -> dict[str, str]:
    """Version of the list of prices, and the day of its newest price: it was made then or later."""
    from genai_prices.data import providers

    today = datetime.now(UTC).date()
    days = [
        day
        for provider in providers
        for model in provider.models
        for dated_price in (model.prices if isinstance(model.prices, list) else ())
        if (day := getattr(dated_price.constraint, "start_date", None)) is not None and day <= today
    ]
    return {"version": version("genai-prices"), "newest": max(days).isoformat()}


def nearest_model(settings: JudgeSettings) -> str | None:
    """Model with a list price whose name is almost that of a model without any; None if there is none."""
    if find_price(settings) is not None:
        return None
    from genai_prices.data import providers

    names = [model.id for provider in providers if provider.id in NAMED_PROVIDERS for model in provider.models]
    close_names = get_close_matches(settings.model, names, n=1, cutoff=NEAR)
    return close_names[0] if close_names else None


def mistyped_model_hint(settings: JudgeSettings) -> str:
    """Question after a sentence on a model whose name may be mistyped; empty where no other is near."""
    nearest = nearest_model(settings)
    return f"; did you mean {nearest}?" if nearest else ""


def unpriced_notes(models: Iterable[JudgeSettings]) -> tuple[str, ...]:
    """Sentence for each model without a price, with the name that may be meant."""
    return tuple(
        f"no price of the judge {model.model}{mistyped_model_hint(model)}"
        for model in models
        if find_price(model) is None
    )


def refuse_unpriced(settings: JudgeSettings, price: Price | None) -> None:
    """Raise `JudgeSettingsError` if the price at one of the addresses is unknown, so that no budget can be enforced.

    price: at the judge's own address.
    """
    for address in settings.addresses:
        if (price if address is settings else find_price(settings, address)) is None:
            location = "" if address is settings else f" at {address.base_url}"
            raise JudgeSettingsError(
                "--budget-usd",
                f"no price of {settings.model}{location}",
                "one: give `prices` (input_usd, output_usd a million tokens) in a judge file, or no budget"
                + mistyped_model_hint(settings),
            )


def _own_price(prices: Prices) -> Price:
    cached_usd = prices.input_usd if prices.cached_usd is None else prices.cached_usd
    return Price(
        prices.input_usd / TOKENS_PER_PRICE,
        cached_usd / TOKENS_PER_PRICE,
        prices.output_usd / TOKENS_PER_PRICE,
        tier_factors={**TIER_FACTORS, **{tier.lower(): factor for tier, factor in prices.tiers.items()}},
        is_own=True,
    )


def _list_price(price: "ModelPrice", is_embedding: bool) -> Price | None:
    output = Decimal(0) if price.output_mtok is None and is_embedding else price.output_mtok
    if price.input_mtok is None or output is None:
        return None
    cached = price.input_mtok if price.cache_read_mtok is None else price.cache_read_mtok
    units = (price.input_mtok, cached, output, price.cache_write_mtok, price.input_audio_mtok)
    starts = {tier.start for unit in units if unit is not None and not isinstance(unit, Decimal) for tier in unit.tiers}
    tiers = tuple((start, _length_price(*units, start + 1)) for start in sorted(starts))
    return replace(_length_price(*units, 0), tiers=tiers)


def _length_price(
    fresh: "_Unit", cached: "_Unit", output: "_Unit", written: "_Unit | None", audio: "_Unit | None", prompt_tokens: int
) -> Price:
    return Price(
        _usd_per_token(fresh, prompt_tokens),
        _usd_per_token(cached, prompt_tokens),
        _usd_per_token(output, prompt_tokens),
        write_usd=None if written is None else _usd_per_token(written, prompt_tokens),
        audio_usd=None if audio is None else _usd_per_token(audio, prompt_tokens),
    )


def _usd_per_token(price: "_Unit", prompt_tokens: int) -> float:
    """Price in the tier for a prompt of this length."""
    if not isinstance(price, Decimal):
        reached = [tier.price for tier in price.tiers if prompt_tokens > tier.start]  # ascending
        price = reached[-1] if reached else price.base
    return float(price) / TOKENS_PER_PRICE


def cost_usd(price: Price | None, usage: Usage, request_count: int = 1, *, tier: str | None = None) -> float | None:
    """Cost of a request, or of `request_count` requests of similar length; None if the price is unknown.

    tier: service tier named in the reply, not the one requested. What the endpoint says that it charged comes before
    the list of prices.
    """
    if usage.stated_usd is not None and not (price and price.is_own):
        return usage.stated_usd
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


def total_usd(costs: Iterable[float | None]) -> float | None:
    """Sum of costs; None if one is unknown."""
    amounts = list(costs)
    return None if None in amounts else math.fsum(cost for cost in amounts if cost is not None)


def prompt_bytes(messages: Sequence[Mapping[str, Any]], schema: object) -> int:
    """Bytes of a prompt: the messages and the reply's schema.

    Images and sounds count by their usual tokens, as their own bytes are no measure of them.
    """
    costs = _media_costs(messages)
    usual_tokens = sum(cost.usual_tokens for cost in costs)
    return _text_bytes(messages, schema, costs) + usual_tokens * MEDIA_BYTES_PER_TOKEN


def most_tokens(messages: Sequence[Mapping[str, Any]], schema: object) -> int:
    """Upper bound of a prompt's price in text tokens: no tokenizer produces more tokens than bytes.

    Images and sounds are billed by size and length: see `media_kinds` for their maximum.
    """
    costs = _media_costs(messages)
    return _text_bytes(messages, schema, costs) + MESSAGE_OVERHEAD_TOKENS + sum(cost.most_tokens for cost in costs)


def least_tokens(*texts: str) -> int:
    """Lower bound of the tokens of texts: one per word, or one per CHARACTERS_PER_TOKEN if that is less.

    Tokenizers of today join words only in whitespace and repetitions; letters of one word may be one token.
    """
    return sum(min(len(text) // CHARACTERS_PER_TOKEN, len(text.split())) for text in texts)


def least_prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Lower bound of a prompt's tokens: of its texts alone, as endpoints may not count schemas and images as text."""
    return least_tokens(*(text for message in messages for text in _texts(message.get("content"))))


def _texts(content: object) -> Iterator[str]:
    """Texts of a message's content, which is a text or a list of parts."""
    for part in content if isinstance(content, list) else [{"text": content}]:
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            yield text


def _text_bytes(messages: Sequence[Mapping[str, Any]], schema: object, costs: Sequence[PartCost]) -> int:
    schema_bytes = 0 if schema is None else len(orjson.dumps(schema))
    return len(orjson.dumps(messages)) + schema_bytes - sum(cost.byte_count for cost in costs)


def _media_costs(messages: Sequence[Mapping[str, Any]]) -> list[PartCost]:
    contents = [message.get("content") for message in messages]  # messages of a chat may have no content
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [cost for part in parts if isinstance(part, dict) and (cost := part_cost(part)) is not None]


def worst_cost_usd(price: Price | None, prompt_tokens: int, max_tokens: int, tier_asked: str | None = None) -> float:
    """Maximum cost of a request; 0 if the price is unknown.

    Covers the price of the longest prompts, a prompt written to the cache whole, and the most expensive tier that a
    reply may name.
    """
    if price is None:
        return 0.0
    units = [price, *(unit for _, unit in price.tiers)]
    input_usd = max(max(unit.input_usd, unit.cached_usd, unit.written_usd) for unit in units)
    output_usd = max(unit.output_usd for unit in units)
    return price.worst_factor(tier_asked) * (prompt_tokens * input_usd + max_tokens * output_usd)

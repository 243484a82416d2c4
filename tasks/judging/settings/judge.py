"""The judge's settings: how to ask a model, or which file of recorded replies to read."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gradebook.rubrics.prompts.batched_criteria import packed_prompt_digest
from gradebook.rubrics.prompts.prompt import JUDGE_PROMPT_VERSION, PromptStyle, prompt_digest

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
ADDRESS_VARIABLE = "OPENAI_BASE_URL"
REPLAY_PREFIX = "replay:"
KEY_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9][a-z0-9-]*)$"

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tier = Literal["auto", "default", "flex", "priority"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Settings):
    """The user's own prices, in USD a million tokens."""

    input_usd: Price
    output_usd: Price
    cached_usd: Price | None = None  # None: as input_usd
    tiers: dict[str, Price] = Field(default_factory=dict)  # service tier -> multiple of these prices


class Address(_Settings):
    """Where a model is asked, and where the key to it is found. The key itself is never a setting."""

    base_url: str = DEFAULT_BASE_URL
    key: Annotated[str, Field(pattern=KEY_PATTERN)] = f"env:{KEY_VARIABLE}"

    @field_validator("base_url")
    @classmethod
    def _base_url_is_an_address(cls, value: str) -> str:
        try:
            address = urlsplit(value)
            is_address = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        except ValueError:  # half an IPv6 address, a port over 65535
            is_address = False
        if not is_address or not value.isprintable() or " " in value:
            raise ValueError("an address that begins with http:// or https://")
        if address.username or address.password or address.query:
            raise ValueError(f"an address without a user, password or query; the key comes from {KEY_VARIABLE}")
        return value.rstrip("/")


class Fallback(Address):
    """Another address of the same model."""

    base_url: str
    prices: Prices | None = None  # None: the judge's own, else the list price at this address


class ModelSettings(Address):
    """How to ask a model behind an OpenAI-compatible endpoint, whatever it is asked."""

    model: Annotated[str, Field(min_length=1)]
    service_tier: Tier | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=4096)] = 32
    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 6
    patience_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 180
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None  # None: not sent; some models refuse it
    seed: int | None = None
    fallbacks: tuple[Fallback, ...] = ()
    prices: Prices | None = None

    @field_validator("model", "concurrency_limit", check_fields=False)
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("a name without control characters")
        return value


class JudgeSettings(ModelSettings):
    """How to ask a model for verdicts."""

    mode: Literal["reply", "logprobs", "batch"] = "reply"
    concurrency_limit: Annotated[str, Field(min_length=1)] | None = None
    replicates: Annotated[int, Field(ge=1, le=32)] = 1
    replicate_share: Share = 1  # of the outputs that get more than one
    swap_share: Share = 0  # of the outputs that are judged once more with the levels in the other order
    packing: Annotated[int, Field(ge=1, le=4)] = 1
    reply_order: Literal["evidence_first", "level_first"] = "evidence_first"
    level_order: Literal["worst_first", "best_first"] = "worst_first"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0

    @property
    def judge(self) -> str:
        """The judge's name in tables."""
        return self.model

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it is asked: its own address first, then those to fall back to."""
        return (self, *self.fallbacks)

    @property
    def style(self) -> PromptStyle:
        """How its prompts are written."""
        kind: Literal["reply", "logprobs"] = "logprobs" if self.mode == "logprobs" else "reply"
        return PromptStyle(kind, self.reply_order, self.level_order)

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a reply; two judges that differ in it never share a verdict."""
        return {
            "kind": "openai_chat",
            "model": self.model,
            "temperature": 0 if self.temperature == 0 else self.temperature,  # a file's 0 is read as 0.0
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "prompt_version": JUDGE_PROMPT_VERSION,
            "prompt_digest": prompt_digest(self.style) if self.packing == 1 else packed_prompt_digest(),
            "packing": self.packing,
            "reply": self.style.reply,
            "reply_order": self.reply_order,
            "level_order": self.level_order,
        }

    @property
    def judge_digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return identity_digest(self.identity)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """A file of recorded replies, and the digest of its bytes."""

    path: Path
    digest: str

    @property
    def judge(self) -> str:
        """The judge's name in tables."""
        return f"{REPLAY_PREFIX}{self.path.name}"

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a reply: the recorded replies themselves."""
        return {"kind": "replay", "digest": self.digest}

    @property
    def judge_digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return identity_digest(self.identity)


def identity_digest(identity: dict[str, Any]) -> str:
    """Hash of a judge's identity, 32 hex digits."""
    return digest(json.dumps(identity, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """Hash of bytes, 32 hex digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()

"""Settings of a judge: a model behind an endpoint, or a file of recorded replies."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gradebook.rubrics.model.digests import digest_of
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
    """The user's own prices, in USD per million tokens."""

    input_usd: Price
    output_usd: Price
    cached_usd: Price | None = None  # None: as input_usd
    tiers: dict[str, Price] = Field(default_factory=dict)  # service tier -> multiple of these prices


class Address(_Settings):
    """Address of an endpoint, and the name of its key. The key itself is never a setting."""

    base_url: str = DEFAULT_BASE_URL
    key: Annotated[str, Field(pattern=KEY_PATTERN)] | None = None  # None: the environment's, at its own address

    @field_validator("base_url")
    @classmethod
    def _base_url_is_an_address(cls, value: str) -> str:
        try:
            address = urlsplit(value)
            is_address = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        except ValueError:  # a partial IPv6 address, a port over 65535
            is_address = False
        if not is_address or not value.isprintable() or " " in value:
            raise ValueError("an address that begins with http:// or https://")
        if address.username or address.password or address.query:
            raise ValueError(f"an address without a user, password or query; the key comes from {KEY_VARIABLE}")
        return value.rstrip("/")


class Fallback(Address):
    """Fallback address of the same model."""

    base_url: str
    prices: Prices | None = None  # None: the judge's own, else the list price at this address


class ModelSettings(Address):
    """Settings of a model behind an OpenAI-compatible endpoint, for any kind of question."""

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
    """Settings of a model that gives verdicts."""

    mode: Literal["reply", "logprobs", "batch"] = "reply"
    concurrency_limit: Annotated[str, Field(min_length=1)] | None = None
    replicates: Annotated[int, Field(ge=1, le=32)] = 1
    replicate_share: Share = 1  # share of the outputs with more than one replicate
    swap_share: Share = 0  # share of the outputs with a position-bias control: judged again with the levels reversed
    packing: Annotated[int, Field(ge=1, le=4)] = 1
    reply_order: Literal["evidence_first", "level_first"] = "evidence_first"
    level_order: Literal["worst_first", "best_first"] = "worst_first"
    flaws_first: bool = False  # the judge names flaws before evidence, rationale and level
    reply_format: Literal["json_schema", "text"] = "json_schema"  # text: no structured output is asked for
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0
    epoch: Annotated[int, Field(ge=1)] | None = None  # another number asks all questions anew
    batch_command: str | None = None  # program that answers a batch file, in place of an endpoint

    @model_validator(mode="after")
    def _flaws_have_a_place(self) -> Self:
        if self.flaws_first and (self.mode == "logprobs" or self.packing > 1):
            found = "mode: logprobs" if self.mode == "logprobs" else f"packing: {self.packing}"
            raise ValueError(f"flaws_first without {found}: each reply names the flaws for one criterion, in sentences")
        return self

    @model_validator(mode="after")
    def _program_has_a_place(self) -> Self:
        if self.batch_command is None:
            return self
        others = {"mode: batch": self.mode == "batch", "packing": self.packing > 1, "fallbacks": bool(self.fallbacks)}
        if found := [name for name, is_given in others.items() if is_given]:
            raise ValueError(f"batch_command without {found[0]}: the program gets one request for each question")
        program_words(self.batch_command, "in", "out")
        return self

    @property
    def judge(self) -> str:
        """Name of the judge in tables."""
        return self.model

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The judge's own address, then its fallbacks."""
        return (self, *self.fallbacks)

    @property
    def style(self) -> PromptStyle:
        """Form of the prompts."""
        kind: Literal["reply", "logprobs"] = "logprobs" if self.mode == "logprobs" else "reply"
        return PromptStyle(kind, self.reply_order, self.level_order, self.flaws_first)

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a reply; judges that differ in them never share a verdict."""
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
            # Left out at their defaults, so that digests from before they existed stay.
            **({"flaws_first": True} if self.flaws_first else {}),
            **({"reply_format": "text"} if self.reply_format == "text" else {}),
            **({} if self.epoch is None else {"epoch": self.epoch}),
        }

    @property
    def judge_digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """File of recorded replies, and the digest of its bytes."""

    path: Path
    digest: str

    @property
    def judge(self) -> str:
        """Name of the judge in tables."""
        return f"{REPLAY_PREFIX}{self.path.name}"

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the recorded replies, by their digest."""
        return {"kind": "replay", "digest": self.digest}

    @property
    def judge_digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)


def program_words(command: str, requests: str, replies: str) -> list[str]:
    """Words of a `batch_command`, with the paths of its two files. Raises `ValueError` if it is none."""
    words = shlex.split(command)
    if not words or not all(any(slot in word for word in words[1:]) for slot in ("{in}", "{out}")):
        raise ValueError("a program and its arguments, with {in} and {out} for the files of requests and replies")
    return [word.replace("{in}", requests).replace("{out}", replies) for word in words]


def identity_digest(identity: dict[str, Any]) -> str:
    """Digest of a judge's identity, 32 hex digits."""
    return digest_of(json.dumps(identity, sort_keys=True))

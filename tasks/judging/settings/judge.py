"""Settings of a judge: a model behind an endpoint, or a file of recorded replies."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gradebook.rubrics.model.digests import digest_of
from gradebook.rubrics.prompts.batched_criteria import packed_prompt_digest
from gradebook.rubrics.prompts.prompt import JUDGE_PROMPT_VERSION, PromptStyle, prompt_digest
from gradebook.tasks.judging.settings.provider_table import reasons_first

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
ADDRESS_VARIABLE = "OPENAI_BASE_URL"
REPLAY_PREFIX = "replay:"
KEY_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9][a-z0-9-]*|command:[^\x00-\x1f]{1,1000})$"
HEADER_NAME = r"^[A-Za-z0-9][A-Za-z0-9-]{0,99}$"
VARIABLE_IN_TEXT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_HEADERS = re.compile("key|token|secret|auth|cookie|credential|password", re.IGNORECASE)
_OUR_HEADERS = ("authorization", "host", "connection", "cookie", "accept", "accept-encoding", "user-agent", "expect")
_OUR_HEADER_STARTS = ("content-", "transfer-", "proxy-", "x-forwarded-")
# Parts of a request that have settings of their own, or whose reply gradebook could not read.
_OUR_PARTS = (
    *("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "service_tier"),
    *("reasoning_effort", "verbosity", "thinking"),
)
_UNREAD_PARTS = ("stream", "stream_options", "n", "response_format")

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tier = Literal["auto", "default", "flex", "priority"]
REASONED_TOKENS = 8_192  # of a reply with what a model reasons before; 414 are usual, 10,000 happen
MOST_REASONED_TOKENS = 32_768  # of the second request, where the first was cut off


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
    key_header: Annotated[str, Field(pattern=HEADER_NAME)] | None = None  # None: `Authorization: Bearer KEY`
    headers: dict[Annotated[str, Field(pattern=HEADER_NAME)], str] = Field(default_factory=dict)
    query: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)  # such as api-version

    @field_validator("key_header")
    @classmethod
    def _key_header_is_free(cls, value: str | None) -> str | None:
        if value is not None and _is_ours(value):
            raise ValueError("another header: gradebook sets this one")
        return value

    @field_validator("headers")
    @classmethod
    def _headers_are_free(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if _is_ours(name):
                raise ValueError(f"no {name}: gradebook sets it, and `key` the key")
            if not (text.isascii() and text.isprintable()):
                raise ValueError(f"a value of {name} in printable ASCII")
            if _SECRET_HEADERS.search(name) and not VARIABLE_IN_TEXT.search(text):
                raise ValueError(
                    f"`${{VARIABLE}}` as the value of {name}: it may be a secret, and has no place in a file"
                )
        return value

    @property
    def header_variables(self) -> tuple[str, ...]:
        """Variables of the environment that the headers name."""
        return tuple(name for text in self.headers.values() for name in VARIABLE_IN_TEXT.findall(text))

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
    reasoning_effort: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")] | None = None  # none, minimal, low, ...
    verbosity: Literal["low", "medium", "high"] | None = None
    thinking: Annotated[int, Field(ge=0)] | None = None  # tokens of thought at most; 0: none
    extra_body: dict[str, Any] = Field(default_factory=dict)  # sent unchanged: top_p, top_k, chat_template_kwargs
    fallbacks: tuple[Fallback, ...] = ()
    prices: Prices | None = None

    @field_validator("extra_body")
    @classmethod
    def _is_left_to_the_user(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [name for name in value if name in _OUR_PARTS + _UNREAD_PARTS]:
            raise ValueError(f"no {taken[0]}: it has a setting of its own, or can't be another")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("values that JSON has") from None
        return value

    @property
    def extra_identity(self) -> dict[str, Any]:
        """Optional settings that affect a reply; left out where they are not set, so that older digests stay."""
        optional = {name: getattr(self, name) for name in ("reasoning_effort", "verbosity", "thinking")}
        extra = {"extra_body": self.extra_body} if self.extra_body else {}
        return {name: value for name, value in optional.items() if value is not None} | extra

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
    reply_format: Literal["json_schema", "json_object", "text"] = "json_schema"  # text: no structured output
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
    def is_plain(self) -> bool:
        """Whether the endpoint holds no reply to a schema, so that its text may stand around the object."""
        return self.reply_format != "json_schema"

    @property
    def is_reasoning(self) -> bool:
        """Whether the model reasons before it replies, as far as its settings and its name tell."""
        if self.reasoning_effort is not None:
            return self.reasoning_effort != "none"
        return self.thinking > 0 if self.thinking is not None else reasons_first(self.model)

    @property
    def room_tokens(self) -> int:
        """Tokens for what the model reasons, beside those of its reply; none where a file sets `max_tokens`."""
        if not self.is_reasoning or "max_tokens" in self.model_fields_set:
            return 0
        return max(REASONED_TOKENS - self.max_tokens, self.thinking or 0)

    def token_limit(self, reply_tokens: int | None = None) -> int:
        """Limit of a request. reply_tokens: of the reply alone, if not as in the settings."""
        return (reply_tokens or self.max_tokens) + self.room_tokens

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
            "max_tokens": self.max_tokens,  # without the room to reason, which changes no reply that is whole
            "prompt_version": JUDGE_PROMPT_VERSION,
            "prompt_digest": prompt_digest(self.style) if self.packing == 1 else packed_prompt_digest(),
            "packing": self.packing,
            "reply": self.style.reply,
            "reply_order": self.reply_order,
            "level_order": self.level_order,
            # Left out at their defaults, so that digests from before they existed stay.
            **({"flaws_first": True} if self.flaws_first else {}),
            **({} if self.reply_format == "json_schema" else {"reply_format": self.reply_format}),
            **({} if self.epoch is None else {"epoch": self.epoch}),
            **self.extra_identity,
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


def _is_ours(header: str) -> bool:
    """Whether gradebook or the HTTP client sets a header."""
    return header.lower() in _OUR_HEADERS or header.lower().startswith(_OUR_HEADER_STARTS)


def program_words(command: str, requests: str, replies: str) -> list[str]:
    """Words of a `batch_command`, with the paths of its two files. Raises `ValueError` if it is none."""
    words = shlex.split(command)
    if not words or not all(any(slot in word for word in words[1:]) for slot in ("{in}", "{out}")):
        raise ValueError("a program and its arguments, with {in} and {out} for the files of requests and replies")
    return [word.replace("{in}", requests).replace("{out}", replies) for word in words]


def identity_digest(identity: dict[str, Any]) -> str:
    """Digest of a judge's identity, 32 hex digits."""
    return digest_of(json.dumps(identity, sort_keys=True))

"""Settings of a model behind an endpoint: its addresses, the names of its keys, limits, prices and what it is sent."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
ADDRESS_VARIABLE = "OPENAI_BASE_URL"
Form = Literal["openai", "anthropic", "systemone", "decisions"]
# By form: the `kind` of an identity.
FORMS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "openai_chat",
        "anthropic": "anthropic_messages",
        "systemone": "systemone",
        "decisions": "decisions",
    }
)
LEAST_THINKING = 1_024  # tokens, in Anthropic's form
DECISION_FORMS = ("systemone", "decisions")  # of models that answer typed questions with probabilities
KEY_PATTERN = r"^(aws|env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9][a-z0-9-]*|command:[^\x00-\x1f]{1,1000})$"
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
_PARTS_OF_ANTHROPIC = ("system", "tools", "tool_choice", "output_config", "output_format", "cache_control")

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tier = Literal["auto", "default", "flex", "priority"]


class FrozenSettings(BaseModel):
    """Part of a settings file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(FrozenSettings):
    """The user's own prices, in USD per million tokens."""

    input_usd: Price
    output_usd: Price
    cached_usd: Price | None = None  # None: as input_usd
    tiers: dict[str, Price] = Field(default_factory=dict)  # service tier -> multiple of these prices


class Address(FrozenSettings):
    """Address of an endpoint, and the name of its key. The key itself is never a setting."""

    base_url: str = DEFAULT_BASE_URL
    key: Annotated[str, Field(pattern=KEY_PATTERN)] | None = None  # None: the environment's, at its own address
    key_header: Annotated[str, Field(pattern=HEADER_NAME)] | None = None  # None: `Authorization: Bearer KEY`
    headers: dict[Annotated[str, Field(pattern=HEADER_NAME)], str] = Field(default_factory=dict)
    query: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)  # such as api-version
    form: Form = "openai"  # in which it is asked

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

    @field_validator("query", mode="before")
    @classmethod
    def _query_is_text(cls, value: Any) -> Any:
        """Texts of days, as YAML reads `api-version: 2024-10-21`, and of whole numbers; others lost their spelling."""
        if not isinstance(value, dict):
            return value
        for name, entry in value.items():
            if isinstance(entry, bool | float | datetime):
                raise ValueError(f"a text for {name}: put it in quotation marks")
        return {name: str(entry) if isinstance(entry, date | int) else entry for name, entry in value.items()}

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
        if reserved := [name for name in value if name in _OUR_PARTS + _UNREAD_PARTS]:
            raise ValueError(f"no {reserved[0]}: it has a setting of its own, or can't be another")
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

    @model_validator(mode="before")
    @classmethod
    def _form_is_shared(cls, written: Any) -> Any:
        """Hand the form down to the fallbacks, and leave out the default temperature where Claude thinks."""
        if not isinstance(written, dict) or written.get("form", "openai") == "openai":
            return written
        fallbacks = written.get("fallbacks")
        if isinstance(fallbacks, list | tuple):
            form = {"form": written["form"]}
            written = written | {
                "fallbacks": [form | fallback if isinstance(fallback, dict) else fallback for fallback in fallbacks]
            }
        return {"temperature": None} | written if written.get("thinking") else written

    @model_validator(mode="after")
    def _form_has_its_settings(self) -> Self:
        if self.form == "anthropic" and (lacks := next(_not_of_anthropic(self), None)):
            raise ValueError(f"form: anthropic has no {lacks}")
        return self

    @field_validator("model", "concurrency_limit", check_fields=False)
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("a name without control characters")
        return value


def _not_of_anthropic(settings: ModelSettings) -> Iterator[str]:
    """Settings that Anthropic's form can't take, each with what to do."""
    thinking, most = settings.thinking or LEAST_THINKING, settings.max_tokens
    is_set = {name: getattr(settings, name) is not None for name in ("seed", "verbosity")}
    yield from (f"{name}: take it out" for name, is_given in is_set.items() if is_given)
    if settings.service_tier not in (None, "auto", "default"):
        yield f"service_tier: {settings.service_tier}, expected auto or default"
    if settings.temperature is not None and (
        settings.temperature > 1 or (settings.thinking and settings.temperature < 1)
    ):
        yield f"temperature: {settings.temperature:g}, expected at most 1, and none with `thinking`"
    if thinking < LEAST_THINKING or (
        "max_tokens" in settings.model_fields_set and thinking >= most and settings.thinking
    ):
        yield f"thinking: {thinking}, expected at least {LEAST_THINKING}, and less than `max_tokens`"
    if reserved := next((name for name in settings.extra_body if name in _PARTS_OF_ANTHROPIC), None):
        yield f"{reserved} in `extra_body`: gradebook sets it"
    if getattr(settings, "mode", "reply") == "logprobs":
        yield "mode: logprobs: set `form: openai` at another address, or another mode"
    if getattr(settings, "reply_format", None) == "json_object":
        yield "reply_format: json_object, expected json_schema, tool or text"


def _is_ours(header: str) -> bool:
    """Whether gradebook or the HTTP client sets a header."""
    return header.lower() in _OUR_HEADERS or header.lower().startswith(_OUR_HEADER_STARTS)

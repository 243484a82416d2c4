"""The judge's settings: a model name, a judge file, or a file of recorded replies."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from rubrics.errors import JudgeSettingsError
from rubrics.judging.prompt import JUDGE_PROMPT_VERSION, prompt_digest

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
ADDRESS_VARIABLE = "OPENAI_BASE_URL"
REPLAY_PREFIX = "replay:"

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Settings):
    """The user's own prices, in USD a million tokens."""

    input_usd: Price
    output_usd: Price
    cached_usd: Price | None = None  # None: as input_usd


class JudgeSettings(_Settings):
    """How to ask a model behind an OpenAI-compatible endpoint. The key is not here: it comes from the environment."""

    model: Annotated[str, Field(min_length=1)]
    base_url: str = DEFAULT_BASE_URL
    max_in_flight: Annotated[int, Field(ge=1, le=4096)] = 32
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 6
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0  # None: not sent; some models refuse it
    seed: int | None = None
    prices: Prices | None = None

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

    @field_validator("model")
    @classmethod
    def _model_is_a_name(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("a name without control characters")
        return value

    @property
    def judge(self) -> str:
        """The judge's name in tables."""
        return self.model

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a reply; two judges that differ in it never share a verdict."""
        return {
            "kind": "openai_chat",
            "model": self.model,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "prompt_version": JUDGE_PROMPT_VERSION,
            "prompt_digest": prompt_digest(),
            "packing": "one_criterion",
        }

    @property
    def judge_digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return _digest(json.dumps(self.identity, sort_keys=True).encode())


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
        return _digest(json.dumps(self.identity, sort_keys=True).encode())


def read_judge(judge: str, environ: Mapping[str, str]) -> JudgeSettings | ReplaySettings:
    """Read what `--judge` names: `replay:FILE`, a judge file, or else a model's name.

    Raises `JudgeSettingsError` that names the file, the setting, what was found and what is expected.
    """
    if judge.startswith(REPLAY_PREFIX):
        return _replay_settings(Path(judge.removeprefix(REPLAY_PREFIX)))
    path = Path(judge)
    if path.suffix in (".yaml", ".yml") or os.path.isfile(path):  # noqa: PTH113 - Path raises where a name is too long
        return _validate(_read_judge_file(path), environ, source=str(path))
    return _validate({"model": judge}, environ, source="--judge")


def _replay_settings(path: Path) -> ReplaySettings:
    try:
        return ReplaySettings(path, _digest(path.read_bytes()))
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise JudgeSettingsError(f"{path}: can't be read ({reason}), expected a file of recorded replies") from None


def _read_judge_file(path: Path) -> dict[str, Any]:
    try:
        written = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise JudgeSettingsError(f"{path}: can't be read ({error.strerror}), expected a judge file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # PyYAML lets out what a bad date or number raises
        raise JudgeSettingsError(f"{path}: found no YAML, expected a judge file: {_place(error)}") from None
    if not isinstance(written, dict) or not all(isinstance(name, str) for name in written):
        kinds = {type(None): "an empty file", list: "list", dict: "a setting whose name is no text"}
        found = kinds.get(type(written), "a single value")
        raise JudgeSettingsError(f"{path}: found {found}, expected settings such as `model: NAME`")
    return written


def _place(error: Exception) -> str:
    """Where a YAML file breaks, without its text: someone may have written a key into it."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    is_text = not isinstance(error, UnicodeDecodeError | yaml.reader.ReaderError)
    return "a date or a number of it is none" if is_text else "it is not printable text in UTF-8"


def _validate(written: dict[str, Any], environ: Mapping[str, str], source: str) -> JudgeSettings:
    address = environ.get(ADDRESS_VARIABLE)
    is_from_environment = "base_url" not in written and bool(address)
    settings = written | ({"base_url": address} if is_from_environment else {})
    try:
        return JudgeSettings.model_validate(settings)
    except ValidationError as error:
        faults = [_fault(fault, source, is_from_environment) for fault in error.errors()]
        raise JudgeSettingsError("\n".join(faults)) from None


def _fault(fault: ErrorDetails, source: str, is_from_environment: bool) -> str:
    """Say what is wrong with one setting. An unknown setting or an address may hold a secret, and is not shown."""
    setting = ".".join(str(step) for step in fault["loc"])
    if setting == "base_url":
        place = f"environment: {ADDRESS_VARIABLE}" if is_from_environment else f"{source}: base_url"
        is_ours = fault["type"] == "value_error"
        expected = fault["msg"].removeprefix("Value error, ") if is_ours else "an address as text"
        return f"{place}: found something else, expected {expected}"
    if fault["type"] == "extra_forbidden":
        return f"{source}: {setting}: found an unknown setting, expected one of {', '.join(JudgeSettings.model_fields)}"
    if fault["type"] == "missing":
        return f"{source}: {setting}: found nothing, expected a value"
    expected = fault["msg"].removeprefix("Value error, ")
    return f"{source}: {setting}: found {fault['input']!r}, expected otherwise: {expected}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()

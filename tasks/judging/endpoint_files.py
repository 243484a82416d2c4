"""Reading what `--endpoint` names: a model, or a file that says how the model is asked for its outputs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from gradebook.rubrics.errors import JudgeSettingsError
from gradebook.tasks.judging.judge_files import is_settings_file, read_settings_file, validate_settings
from gradebook.tasks.judging.settings import REPLAY_PREFIX, JudgeSettings, ModelSettings, identity_digest

EXPECTED = "an endpoint file"
# What gradebook itself says of a request, or could not read the reply to.
_OURS = ("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "service_tier")
_UNREAD = ("stream", "stream_options", "n", "response_format")


class EndpointSettings(ModelSettings):
    """How to ask a model for the outputs that are to be evaluated."""

    max_tokens: Annotated[int, Field(ge=1)] = 4096
    system: Annotated[str, Field(min_length=1)] | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)  # sent as it is: top_p, top_k, chat_template_kwargs

    @field_validator("extra_body")
    @classmethod
    def _is_left_to_the_user(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [name for name in value if name in _OURS + _UNREAD]:
            raise ValueError(f"no {taken[0]}: it has a setting of its own, or can't be another")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("values that JSON has") from None
        return value

    @property
    def asking(self) -> JudgeSettings:
        """The same for the client, which knows judges."""
        return JudgeSettings(**{name: getattr(self, name) for name in ModelSettings.model_fields})

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a reply, apart from the messages, which hold `system`."""
        return {
            "kind": "openai_chat",
            "model": self.model,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "extra_body": self.extra_body,
        }

    @property
    def digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return identity_digest(self.identity)


def read_endpoint(endpoint: str, environ: Mapping[str, str]) -> EndpointSettings:
    """Read what `--endpoint` names: an endpoint file, or else a model's name.

    Raises `JudgeSettingsError` that names the file, the setting, what was found and what is expected.
    """
    if endpoint.startswith(REPLAY_PREFIX):
        raise JudgeSettingsError(f"--endpoint: found recorded replies, {endpoint!r}, expected {EXPECTED} or a model")
    if not is_settings_file(Path(endpoint)):
        return validate_settings(EndpointSettings, {"model": endpoint}, environ, source="--endpoint")
    written = read_settings_file(Path(endpoint), EXPECTED)
    own = EndpointSettings.model_fields
    of_judges = [name for name in written if name in JudgeSettings.model_fields and name not in own]
    if of_judges:
        raise JudgeSettingsError(
            f"{endpoint}: {', '.join(of_judges)}: found a setting of judges, which does not bear on outputs; expected "
            f"one of {', '.join(own)}"
        )
    return validate_settings(EndpointSettings, written, environ, source=endpoint)

"""Judge files of the page on providers, each against a server that refuses, counts and takes keys as it does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradebook.tasks.judging.settings.files import validate_settings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import CANARY, ask, journaled
from tests.support.loopback_anthropic import LoopbackAnthropic
from tests.support.loopback_judge import LoopbackJudge

PAGE = Path(__file__).parents[4] / "docs" / "providers.md"
FILES = {
    block.partition(" -->")[0]: block.partition("```yaml\n")[2].partition("```")[0]
    for block in PAGE.read_text(encoding="utf-8").split("<!-- ")[1:]
    if not block.startswith("providers: ")
}


@dataclass(frozen=True)
class Profile:
    """What a provider does. host: of its address; refused: parameters; model: its name there; usage: more counts."""

    host: str
    model: str
    variable: str | None = None
    refused: tuple[str, ...] = ()
    key_header: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    server: Callable[..., LoopbackJudge] = LoopbackJudge


REASONING = ("temperature", "max_tokens", "logprobs", "seed")
PROFILES = {
    "openai": Profile("api.openai.com", "gpt-5-mini", "OPENAI_API_KEY", REASONING),
    "anthropic": Profile(
        "api.anthropic.com", "claude-sonnet-5", "ANTHROPIC_API_KEY", key_header="x-api-key", server=LoopbackAnthropic
    ),
    "google": Profile(
        "generativelanguage.googleapis.com",
        "gemini-3-flash-preview",
        "GEMINI_API_KEY",
        ("seed", "service_tier"),
        usage={"total_tokens": 1_000},  # what it thinks is in the total alone
    ),
    "vertex": Profile("us-central1-aiplatform.googleapis.com", "google/gemini-2.5-flash"),
    "azure": Profile("example.openai.azure.com", "gpt-5-mini", "AZURE_OPENAI_API_KEY", REASONING, "api-key"),
    "azure-dated": Profile(
        "example.openai.azure.com", "gpt-4o-mini", "AZURE_OPENAI_API_KEY", ("max_tokens",), "api-key"
    ),
    "bedrock": Profile(
        "bedrock-mantle.us-east-1.api.aws", "openai.gpt-oss-120b", "AWS_BEARER_TOKEN_BEDROCK", ("seed",)
    ),
    "deepseek": Profile(
        "api.deepseek.com",
        "deepseek-chat",
        "DEEPSEEK_API_KEY",
        ("json_schema", "max_completion_tokens"),
        usage={"prompt_cache_hit_tokens": 64},
    ),
    "mistral": Profile("api.mistral.ai", "mistral-small-latest", "MISTRAL_API_KEY", ("seed", "max_completion_tokens")),
    "xai": Profile(
        "api.x.ai",
        "grok-4",
        "XAI_API_KEY",
        ("logprobs", "reasoning_effort"),
        usage={"completion_tokens_details": {"reasoning_tokens": 900}},  # beside the completion tokens
    ),
    "groq": Profile("api.groq.com", "llama-3.3-70b-versatile", "GROQ_API_KEY", ("logprobs",)),
    "together": Profile("api.together.ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "TOGETHER_API_KEY"),
    "fireworks": Profile("api.fireworks.ai", "accounts/fireworks/models/gpt-oss-120b", "FIREWORKS_API_KEY"),
    "openrouter": Profile("openrouter.ai", "qwen/qwen3-32b", "OPENROUTER_API_KEY", usage={"cost": 0.01}),
    "litellm": Profile("llm.example.com", "team-judge", "LITELLM_API_KEY"),
    "vllm": Profile("127.0.0.1:8000", "Qwen/Qwen3-8B", usage={"prompt_tokens_details": None}),
    "llamacpp": Profile("127.0.0.1:8080", "gemma-3-270m"),
    "ollama": Profile("127.0.0.1:11434", "llama3.1:8b", usage={"prompt_tokens_details": None}),
    "lmstudio": Profile("127.0.0.1:1234", "qwen3-8b"),
}
PLACES = {
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
    "AWS_REGION": "us-east-1",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "GOOGLE_CLOUD_PROJECT": "p",
}
REASONED = {"google": 1_000, "xai": 900}  # tokens of a reply that have to count at least


def test_every_file_of_the_page_has_a_profile():
    assert FILES.keys() == PROFILES.keys()


@pytest.mark.parametrize("name", PROFILES)
def test_the_file_of_a_provider_is_answered(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    profile = PROFILES[name]
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in PLACES.items():
        monkeypatch.setenv(variable, value)
    settings = validate_settings(JudgeSettings, yaml.safe_load(FILES[name]), {**PLACES, "HOME": str(tmp_path)}, name)
    assert (settings.base_url.split("/")[2], settings.model) == (profile.host, profile.model)

    is_keyed = profile.variable is not None or settings.key is not None
    with profile.server(key=CANARY if is_keyed else None) as server:
        server.key_header, server.refused_parameters = profile.key_header, profile.refused
        server.model, server.usage = profile.model, profile.usage
        place_key(settings, profile, server, tmp_path, monkeypatch)
        asked = settings.model_dump(exclude_unset=True) | {"base_url": server.base_url}
        if profile.variable is not None:
            asked["key"] = f"env:{profile.variable}"
        answers = ask(server, tmp_path / "journal", 2, **asked)
    assert [answer.status for answer in answers] == ["scored", "scored"]
    rows = journaled(tmp_path / "journal").to_pylist()
    least = REASONED.get(name, 1)
    assert all(row["prompt_tokens"] + row["completion_tokens"] >= least for row in rows)
    assert CANARY not in str(rows)


def place_key(
    settings: JudgeSettings, profile: Profile, server: LoopbackJudge, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put the key where the file names it, and allow it at the server."""
    host = server.base_url.split("/")[2]
    if profile.variable is not None:
        monkeypatch.setenv(profile.variable, CANARY)
        monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"{profile.variable}@{host}")
    elif settings.key is not None:
        program = folder / "bin" / "gcloud"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {CANARY}\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        monkeypatch.setenv("GRADEBOOK_ALLOW_PROGRAMS", settings.key.removeprefix("command:"))
        monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"command@{host}")

"""Judges by their names, each against a server that refuses as its provider does; no judge file."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.samples import query, write_outputs, write_rubric

KEY = "sk-canary-0123456789"


@dataclass(frozen=True)
class Profile:
    """Profile of a provider: its section in the table, the variable of its key, and the parameters it refuses."""

    section: str
    variable: str | None
    refused: tuple[str, ...] = ()
    key_header: str | None = None
    model: str = ""


REASONING = ("temperature", "max_tokens", "logprobs")
PROFILES = {
    "gpt-5-mini": Profile("openai", "OPENAI_API_KEY", REASONING),
    "gpt-5.2": Profile("openai", "OPENAI_API_KEY", ("max_tokens",)),
    "gemini-3-flash": Profile("google", "GEMINI_API_KEY", ("seed", "service_tier")),
    "deepseek-chat": Profile("deepseek", "DEEPSEEK_API_KEY", ("json_schema",)),
    "mistral-small": Profile("mistral", "MISTRAL_API_KEY", ("seed",)),
    "grok-4": Profile("xai", "XAI_API_KEY", ("logprobs",)),
    "openrouter/qwen/qwen3": Profile("openrouter", "OPENROUTER_API_KEY", model="qwen/qwen3"),
    "groq/llama-3": Profile("groq", "GROQ_API_KEY", model="llama-3"),
    "ollama/llama3:8b": Profile("ollama", None, model="llama3:8b"),
    "azure/gpt-5-mini": Profile("azure", "AZURE_OPENAI_API_KEY", REASONING, "api-key", "gpt-5-mini"),
    "vertex/google/gemini-2.5-flash": Profile("vertex", None, ("seed",), model="google/gemini-2.5-flash"),
    "bedrock/openai.gpt-oss-120b": Profile("bedrock", "AWS_BEARER_TOKEN_BEDROCK", model="openai.gpt-oss-120b"),
}


@pytest.fixture
def server():
    with LoopbackJudge() as judge:
        yield judge


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_outputs(tmp_path / "outputs.jsonl", count=15)
    write_rubric(tmp_path / "rubric.yaml")
    return tmp_path


def place(name: str, server: LoopbackJudge, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a provider at the server, by the user's settings file; returns the words of the command."""
    profile = PROFILES[name]
    path = folder / "config" / "gradebook" / "settings.toml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(f'[providers.{profile.section}]\nbase_url = "{server.base_url}"\n')
    path.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if profile.variable:
        monkeypatch.setenv(profile.variable, KEY)
        server.key = KEY
    elif profile.section == "vertex":  # a program prints its token
        program = folder / "bin" / "gcloud"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n[ "$*" = "auth print-access-token" ] && echo {KEY}\n')
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        server.key = KEY
    server.key_header, server.refused_parameters = profile.key_header, profile.refused
    server.model = profile.model or name
    return [str(folder / "outputs.jsonl"), "--rubric", str(folder / "rubric.yaml"), "--judge", name, "--run-id", "r"]


DAILY = ("gpt-5-mini", "deepseek-chat", "vertex/google/gemini-2.5-flash")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DAILY, *matrix(name for name in PROFILES if name not in DAILY)])
def test_a_judge_by_name_scores_every_output(evaluate, gradebook, server, folder, monkeypatch, name: str):
    monkeypatch.chdir(folder)
    finished = evaluate(*place(name, server, folder, monkeypatch))
    assert finished.code == 0, finished.err
    rows = query(gradebook, "select status from verdicts where method = 'judge'")
    assert [row["status"] for row in rows] == ["scored"] * 30
    assert KEY not in finished.out + finished.err
    listed = json.loads(gradebook("judges", "list", "--json").out)["providers"]
    (own,) = [each for each in listed if each["is_own"]]
    assert (own["provider"], own["has_key"]) == (PROFILES[name].section, True if PROFILES[name].variable else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("key", "it does not accept the key in GROQ_API_KEY"),
        ("none", "found no key in GROQ_API_KEY, expected one"),
        ("model", "serves the model 'llama-3'; set `model` to one that "),
        ("region", "a part of the address is from GROQ_REGION"),
        ("quota", "the quota is used up: add credit to the account, or name another address in `fallbacks`"),
    ],
)
def test_what_no_request_can_mend_is_one_sentence(evaluate, server, folder, monkeypatch, fault: str, said: str):
    monkeypatch.chdir(folder)
    words = place("groq/llama-3", server, folder, monkeypatch)
    if fault == "key":
        server.key = "sk-another-one"
    elif fault == "none":
        monkeypatch.delenv("GROQ_API_KEY")
    elif fault == "model":
        server.model = "llama-4"
    elif fault == "region":
        monkeypatch.setenv("GROQ_REGION", "eu-nowhere-1")
        settings = folder / "config" / "gradebook" / "settings.toml"
        settings.write_text(settings.read_text().replace("/v1", "/${GROQ_REGION}"))
    else:
        server.faults = ["quota"] * 50
    finished = evaluate(*words)
    assert finished.code == (2 if fault == "none" else 3)
    assert len([line for line in finished.err.splitlines() if said in line]) == 1
    assert KEY not in finished.err

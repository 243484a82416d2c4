"""Judges by their names, each against a server that refuses as its provider does; no judge file."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.provider_profiles import PROFILES
from tests.support.samples import query, write_outputs, write_rubric

KEY = "sk-canary-0123456789"


# By name: the section of the table, and the profile.
NAMES = {
    "gpt-5-mini": ("openai", "openai"),
    "o4-mini": ("openai", "openai-o4"),
    "gpt-5.2": ("openai", "openai-gpt-5.2"),
    "claude-sonnet-5": ("anthropic", "anthropic"),
    "gemini-3-flash": ("google", "google"),
    "deepseek-chat": ("deepseek", "deepseek"),
    "mistral-small": ("mistral", "mistral"),
    "grok-4": ("xai", "xai"),
    "openrouter/qwen/qwen3": ("openrouter", "openrouter"),
    "groq/llama-3": ("groq", "groq"),
    "ollama/llama3:8b": ("ollama", "ollama"),
    "azure/gpt-5-mini": ("azure", "azure"),
    "vertex/google/gemini-2.5-flash": ("vertex", "vertex"),
    "bedrock/openai.gpt-oss-120b": ("bedrock", "bedrock"),
}


@pytest.fixture
def servers():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_outputs(tmp_path / "outputs.jsonl", count=15)
    write_rubric(tmp_path / "rubric.yaml")
    return tmp_path


def place(
    name: str, servers: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[LoopbackJudge, list[str]]:
    """Serve a judge as its provider does, placed by the user's settings file; with the words of the command."""
    section, profile_name = NAMES[name]
    profile = PROFILES[profile_name]
    server = servers.enter_context(profile.server(KEY if profile.place.variable or section == "vertex" else None))
    server.model = name.removeprefix(f"{section}/")
    path = folder / "config" / "gradebook" / "settings.toml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(f'[providers.{section}]\nbase_url = "{server.base_url}"\n')
    path.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if profile.place.variable:
        monkeypatch.setenv(profile.place.variable, KEY)
    elif section == "vertex":  # a program prints its token
        program = folder / "bin" / "gcloud"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n[ "$*" = "auth print-access-token" ] && echo {KEY}\n')
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    files = [str(folder / "outputs.jsonl"), "--rubric", str(folder / "rubric.yaml")]
    return server, [*files, "--judge", name, "--run-id", "r"]


DAILY = ("gpt-5-mini", "deepseek-chat", "vertex/google/gemini-2.5-flash")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DAILY, *matrix(name for name in NAMES if name not in DAILY)])
def test_a_judge_by_name_scores_every_output(evaluate, gradebook, servers, folder, monkeypatch, name: str):
    monkeypatch.chdir(folder)
    _, words = place(name, servers, folder, monkeypatch)
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    rows = query(gradebook, "select status from verdicts where method = 'judge'")
    assert [row["status"] for row in rows] == ["scored"] * 30
    assert KEY not in finished.out + finished.err
    listed = json.loads(gradebook("judge", "list", "--json").out)["providers"]
    (own,) = [provider for provider in listed if provider["is_own"]]
    section, profile = NAMES[name]
    assert (own["provider"], own["has_key"]) == (section, True if PROFILES[profile].place.variable else None)


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
def test_what_no_request_can_mend_is_one_sentence(evaluate, servers, folder, monkeypatch, fault: str, said: str):
    monkeypatch.chdir(folder)
    server, words = place("groq/llama-3", servers, folder, monkeypatch)
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

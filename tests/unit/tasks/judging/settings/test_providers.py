"""Providers by the names of models: the table, the user's own, and the address of the environment."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.tasks.judging.settings.embedder import read_embedder
from gradebook.tasks.judging.settings.files import read_endpoint, read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.settings.providers import known_providers, list_providers
from tests.support.law_over import law_over

CLOUDS = {
    "AZURE_OPENAI_ENDPOINT": "https://team.openai.azure.com/",
    "AWS_REGION": "eu-central-1",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "GOOGLE_CLOUD_PROJECT": "team",
}
NAMES = {
    "gpt-5-mini": ("gpt-5-mini", "https://api.openai.com/v1", None),
    "o4-mini": ("o4-mini", "https://api.openai.com/v1", None),
    "gpt-5.2": ("gpt-5.2", "https://api.openai.com/v1", None),
    "claude-sonnet-5": ("claude-sonnet-5", "https://api.anthropic.com/v1", "env:ANTHROPIC_API_KEY"),
    "gemini-3-flash": (
        "gemini-3-flash",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "env:GEMINI_API_KEY",
    ),
    "deepseek-chat": ("deepseek-chat", "https://api.deepseek.com/v1", "env:DEEPSEEK_API_KEY"),
    "mistral-small": ("mistral-small", "https://api.mistral.ai/v1", "env:MISTRAL_API_KEY"),
    "grok-4": ("grok-4", "https://api.x.ai/v1", "env:XAI_API_KEY"),
    "openrouter/qwen/qwen3": ("qwen/qwen3", "https://openrouter.ai/api/v1", "env:OPENROUTER_API_KEY"),
    "groq/llama-3": ("llama-3", "https://api.groq.com/openai/v1", "env:GROQ_API_KEY"),
    "ollama/llama3:8b": ("llama3:8b", "http://127.0.0.1:11434/v1", None),
    "azure/gpt-5-mini": ("gpt-5-mini", "https://team.openai.azure.com/openai/v1", "env:AZURE_OPENAI_API_KEY"),
    "bedrock/openai.gpt-oss-120b": (
        "openai.gpt-oss-120b",
        "https://bedrock-mantle.eu-central-1.api.aws/v1",
        "env:AWS_BEARER_TOKEN_BEDROCK",
    ),
    "vertex/google/gemini-3-flash": (
        "google/gemini-3-flash",
        "https://us-central1-aiplatform.googleapis.com/v1/projects/team/locations/us-central1/endpoints/openapi",
        "command:gcloud auth print-access-token",
    ),
    "my-model": ("my-model", "https://api.openai.com/v1", None),
}


def own(folder: Path, text: str) -> dict[str, str]:
    """Environment with a settings file of the user."""
    path = folder / "gradebook" / "settings.toml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(text)
    path.chmod(0o600)
    return {"XDG_CONFIG_HOME": str(folder)}


def judge(name: str, environ: dict[str, str]) -> JudgeSettings:
    settings = read_judge(name, environ)
    assert isinstance(settings, JudgeSettings)
    return settings


@law_over("name", NAMES)
def test_a_name_has_a_model_an_address_and_a_key(name: str):
    found = judge(name, CLOUDS)
    assert (found.model, found.base_url, found.key) == NAMES[name]
    endpoint = read_endpoint(name, CLOUDS)
    assert (endpoint.model, endpoint.base_url, endpoint.key) == NAMES[name]


@law_over("provider", known_providers())
def test_a_provider_of_the_table_has_a_source_and_its_key_goes_to_its_address_alone(provider: str):
    entry = known_providers()[provider]
    assert entry.source.startswith("https://")
    settings = judge(f"{provider}/some/model", CLOUDS)
    assert settings.model == "some/model"
    kind, _, variable = (settings.key or entry.key or "").partition(":")
    if kind == "env":
        secret = CLOUDS | {variable: "sk-1"}
        assert read_keys(settings, secret) == ("sk-1",)
        with pytest.raises(JudgeSettingsError, match=f"{variable}@other.example"):
            read_keys(settings.model_copy(update={"base_url": "https://other.example", "key": entry.key}), secret)
    elif kind == "command":
        with pytest.raises(JudgeSettingsError, match="GRADEBOOK_ALLOW_PROGRAMS"):
            read_keys(settings, CLOUDS)
    else:
        assert settings.base_url.startswith("http://127.0.0.1:")


def test_the_address_of_the_environment_comes_before_the_table_and_a_file_s_before_both(tmp_path: Path):
    gateway = {"OPENAI_BASE_URL": "http://127.0.0.1:4000/v1"}
    expected = JudgeSettings(model="claude-sonnet-5", base_url=gateway["OPENAI_BASE_URL"])
    assert judge("claude-sonnet-5", gateway) == expected
    file = tmp_path / "judge.yaml"
    file.write_text("model: groq/llama\nbase_url: http://127.0.0.1:5000/v1\n")
    assert judge(str(file), {}) == JudgeSettings(model="groq/llama", base_url="http://127.0.0.1:5000/v1")


def test_a_file_s_own_settings_come_before_the_provider_s(tmp_path: Path):
    file = tmp_path / "judge.yaml"
    file.write_text("model: o4-mini\ntemperature: 1\n")
    assert (judge("o4-mini", {}).temperature, judge(str(file), {}).temperature) == (None, 1)
    assert (judge("gpt-4o-mini", {}).temperature, judge("deepseek-chat", {}).reply_format) == (0, "json_object")


def test_claude_is_asked_in_its_own_form_unless_the_user_says_otherwise(tmp_path: Path):
    found = judge("claude-sonnet-5", {})
    assert (found.form, found.temperature, found.is_reasoning) == ("anthropic", None, True)
    assert judge("claude-sonnet-4-5", {}).temperature == 0
    gateway = own(tmp_path, '[providers.anthropic]\nbase_url = "http://127.0.0.1:9/v1"\nform = "openai"\n')
    assert judge("claude-sonnet-5", gateway).form == "openai"
    program = tmp_path / "program.yaml"
    program.write_text("model: claude-sonnet-5\nbatch_command: judge {in} {out}\n")
    assert judge(str(program), {}).form == "openai"  # the lines that a program reads
    fallbacks = tmp_path / "fallbacks.yaml"
    fallbacks.write_text(
        "model: claude-sonnet-5\n"
        "fallbacks: [{base_url: https://a.example}, {base_url: https://b.example, form: openai}]\n"
    )
    assert [address.form for address in judge(str(fallbacks), {}).addresses] == ["anthropic", "anthropic", "openai"]
    with pytest.raises(JudgeSettingsError, match="form: .*openai: another form has no embeddings"):
        read_embedder("claude-sonnet-5", {})


def test_a_provider_of_the_user_pairs_its_key_and_comes_before_the_environment_s_address(tmp_path: Path):
    environ = own(
        tmp_path,
        '[providers.team]\nnames = ["team-*"]\nbase_url = "https://llm.example/v1"\nkey = "env:TEAM_KEY"\n'
        'headers = {X-Token = "${TEAM_TOKEN}"}\nrefuses = {temperature = ["team-r*"]}\nsettings = {max_in_flight = 2}\n'
        '[providers.anthropic]\nbase_url = "http://127.0.0.1:9/v1"\n',
    ) | {"OPENAI_BASE_URL": "http://127.0.0.1:4000/v1", "TEAM_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    found = judge("team-r1", environ)
    assert (found.base_url, found.temperature, found.max_in_flight) == ("https://llm.example/v1", None, 2)
    assert read_keys(found, environ) == ("sk-1",)
    assert read_keys(judge("claude-sonnet-5", environ), environ) == ("sk-2",)  # the table's entry, at another address
    assert [each["provider"] for each in list_providers(environ) if each["is_own"]] == ["team", "anthropic"]
    assert "sk-" not in str(list_providers(environ))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("base_url = 'llm'", "base_url"),
        ("base_url = 'https://x'\ntoken = 'CANARY'", "token"),
        ("names = ['x']", "base_url"),
    ],
)
def test_a_wrong_provider_of_the_user_is_named(tmp_path: Path, section: str, said: str):
    with pytest.raises(JudgeSettingsError, match=f"providers.team.*{said}") as caught:
        read_judge("m", own(tmp_path, f"[providers.team]\n{section}\n"))
    assert "CANARY" not in str(caught.value)


def test_a_part_of_the_address_that_is_missing_is_named():
    with pytest.raises(JudgeSettingsError, match=r"azure/gpt-4o: found nothing in AZURE_OPENAI_ENDPOINT"):
        read_judge("azure/gpt-4o", {})


def test_an_embedder_has_a_provider_too():
    found = read_embedder("mistral-embed", {})
    assert found is not None and found.identity["model"] == "mistral-embed"


@law_over(
    ("settings", "limit"),
    [
        ({"model": "gpt-4o-mini"}, 1024),
        ({"model": "gpt-5-mini"}, 8192),
        ({"model": "openai/gpt-5-mini"}, 8192),  # as a gateway names it
        ({"model": "gpt-5-mini", "max_tokens": 2000}, 2000),
        ({"model": "gpt-5.2", "reasoning_effort": "none"}, 1024),
        ({"model": "qwen", "reasoning_effort": "low"}, 8192),
        ({"model": "claude-sonnet-5", "thinking": 10_000}, 11_024),
        ({"model": "claude-sonnet-5", "thinking": 0}, 1024),
    ],
)
def test_a_model_that_reasons_has_room_for_it_which_is_no_part_of_its_digest(settings: dict[str, object], limit: int):
    found = JudgeSettings.model_validate(settings)
    assert found.token_limit() == limit
    assert found.token_limit(100) == limit - found.max_tokens + 100
    assert found.identity["max_tokens"] == found.max_tokens

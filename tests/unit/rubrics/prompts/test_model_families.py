"""Families of models by their names."""

import pytest

from gradebook.rubrics.prompts.model_families import family_of, is_same_model
from tests.support.law_over import law_over


@law_over(
    ("model", "family"),
    [
        ("gpt-4o-mini-2024-07-18", "openai"),
        ("gpt4o", "openai"),
        ("o1-preview", "openai"),
        ("o3", "openai"),
        ("o4-mini", "openai"),
        ("chatgpt-4o-latest", "openai"),
        ("azure/gpt-4o", "openai"),
        ("ft:gpt-4o:acme:claude-killer:abc123", "openai"),
        ("anthropic/claude-3-5-sonnet", "anthropic"),
        ("us.anthropic.claude-3-5-sonnet-v2:0", "anthropic"),
        ("models/gemini-1.5-pro", "google"),
        ("gemma2:9b", "google"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta"),
        ("accounts/fireworks/models/llama-v3p1-405b", "meta"),
        ("Nous-Hermes-2-Mixtral-8x7B-DPO", "mistral"),
        ("ministral-8b", "mistral"),
        ("codestral-22b", "mistral"),
        ("Qwen2.5-72B", "qwen"),
        ("deepseek-r1-distill-llama-70b", "deepseek"),
        ("Phi3", "microsoft"),
        ("command-r-plus", "cohere"),
        ("grok-2", "xai"),
    ],
)
def test_a_name_tells_the_family(model, family):
    assert family_of(model) == family


@law_over(
    "model", ["", "m", "my-model", "model-o1", "supernova", "phillip", "stable-command", "checkpoint-100", "ollama"]
)
def test_another_name_tells_nothing(model):
    assert family_of(model) is None


@pytest.mark.parametrize("model", ["gpt-j-6b", "gpt-neox-20b", "gpt4all"])
def test_a_namesake_is_not_of_the_family(model):
    assert family_of(model) is None


@law_over(
    ("asked", "answered"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
        ("openai/gpt-4o", "GPT-4o-2024-08-06"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("gpt-4", "gpt-4-0613"),
        ("gemini-2.5-pro", "models/gemini-2.5-pro-preview-05-06".replace("-preview", "")),
    ],
)
def test_a_date_or_a_prefix_makes_no_other_model(asked: str, answered: str):
    assert is_same_model(asked, answered)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("gpt-4o", "gpt-4o-mini"), ("gpt-4o", "gpt-4"), ("llama-3-70b", "llama-3-8b"), ("gpt-4.1", "gpt-4.1-nano-2025")],
)
def test_another_size_or_number_is_another_model(asked: str, answered: str):
    assert not is_same_model(asked, answered)

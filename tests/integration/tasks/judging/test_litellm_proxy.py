"""The LiteLLM proxy as a process, in front of judges on loopback in the OpenAI and in Anthropic's form."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gradebook.rubrics.model.errors import EndpointUnavailable
from tests.support.asked import ask, journaled
from tests.support.loopback_anthropic import LoopbackAnthropic
from tests.support.loopback_judge import LoopbackJudge
from tests.support.real_servers import PROXY, RealServer, served_proxy, skip_without

pytestmark = pytest.mark.model
skip_without(PROXY)
MASTER_KEY = "sk-proxy-canary-0123456789"


@dataclass(frozen=True)
class Gateway:
    """The proxy, and the judges behind it."""

    proxy: RealServer
    openai: LoopbackJudge
    claude: LoopbackAnthropic


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("proxy")
    with LoopbackJudge(key="sk-upstream") as openai, LoopbackAnthropic(key="sk-ant-upstream") as claude:
        models = {
            "team-judge": {"model": "openai/gpt-4o-mini", "api_base": openai.base_url, "api_key": openai.key},
            "claude": {
                "model": "anthropic/claude-sonnet-5",
                "api_base": claude.base_url.removesuffix("/v1"),
                "api_key": claude.key,
            },
        }
        config = {
            "model_list": [{"model_name": name, "litellm_params": given} for name, given in models.items()],
            "general_settings": {"master_key": MASTER_KEY},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        with served_proxy(folder / "log", folder / "config.yaml") as proxy:
            yield Gateway(proxy, openai, claude)


@pytest.fixture(autouse=True)
def _key(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_API_KEY", MASTER_KEY)
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"LITELLM_API_KEY@{gateway.proxy.base_url.split('/')[2]}")


def settings(model: str, form: str = "openai") -> dict[str, object]:
    own = {"model": model, "form": form, "key": "env:LITELLM_API_KEY", "timeout_s": 120, "temperature": None}
    return own | {"patience_s": 60, "max_attempts": 4}


@pytest.mark.parametrize(("model", "form"), [("team-judge", "openai"), ("claude", "openai"), ("claude", "anthropic")])
def test_thirty_questions_are_scored_and_counted(gateway: Gateway, tmp_path: Path, model: str, form: str):
    upstream = gateway.claude if model == "claude" else gateway.openai
    before = upstream.prompt_tokens
    answers = ask(gateway.proxy, tmp_path, 30, **settings(model, form))
    assert [answer.status for answer in answers] == ["scored"] * 30
    rows = journaled(tmp_path).to_pylist()
    assert sum(row["prompt_tokens"] for row in rows) == upstream.prompt_tokens - before
    assert all(row["cost_usd"] for row in rows)


def test_an_overload_behind_it_is_asked_again(gateway: Gateway, tmp_path: Path):
    gateway.openai.faults = ["429", "503"]
    answers = ask(gateway.proxy, tmp_path, 6, **settings("team-judge"))
    assert [answer.status for answer in answers] == ["scored"] * 6


@pytest.mark.parametrize(
    ("model", "key", "said"),
    [
        ("nobody", MASTER_KEY, "serves the model 'nobody'"),
        ("team-judge", "sk-another", "does not accept the key in LITELLM_API_KEY"),
    ],
)
def test_what_no_request_can_mend_is_named(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, key: str, said: str
):
    monkeypatch.setenv("LITELLM_API_KEY", key)
    with pytest.raises(EndpointUnavailable, match=said):
        ask(gateway.proxy, tmp_path, 1, **settings(model))

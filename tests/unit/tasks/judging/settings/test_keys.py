"""Which key goes where: only where the operator says so."""

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError
from gradebook.tasks.judging.settings.files import is_settings_file, read_endpoint, read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import fresh_key, read_keys, refused_key_sentence
from gradebook.tasks.judging.settings.model import Address
from tests.support.law_over import law_over

KEY = {"OPENAI_API_KEY": "sk-own", "AWS_SECRET_ACCESS_KEY": "wJalr"}
ELSEWHERE = "http://127.0.0.1:28920/v1"


def keys(environ: dict[str, str], **settings: object) -> tuple[str, ...]:
    return read_keys(JudgeSettings.model_validate({"model": "m"} | settings), KEY | environ)


def test_the_environment_s_key_goes_to_its_own_address_alone():
    assert keys({}) == ("sk-own",)
    assert keys({"OPENAI_BASE_URL": ELSEWHERE}, base_url=ELSEWHERE) == ("sk-own",)
    assert keys({"OPENAI_BASE_URL": ELSEWHERE}, base_url="https://api.openai.com/v1") == ("none",)
    assert keys({}, base_url=ELSEWHERE) == ("none",)
    assert keys({}, base_url="http://api.openai.com/v1") == ("none",)
    assert keys({}, fallbacks=[{"base_url": ELSEWHERE}]) == ("sk-own", "none")


@law_over(
    ("settings", "entry"),
    [
        ({"base_url": ELSEWHERE, "key": "env:AWS_SECRET_ACCESS_KEY"}, "AWS_SECRET_ACCESS_KEY@127.0.0.1:28920"),
        ({"base_url": "https://x.example/v1", "key": "env:OPENAI_API_KEY"}, "OPENAI_API_KEY@x.example"),
        ({"base_url": "http://x.example/v1", "key": "env:OPENAI_API_KEY"}, "OPENAI_API_KEY@http://x.example"),
        ({"key": "env:AWS_SECRET_ACCESS_KEY"}, "AWS_SECRET_ACCESS_KEY@api.openai.com"),
        ({"key": "secret:judge"}, "secret:judge@api.openai.com"),
        ({"fallbacks": [{"base_url": ELSEWHERE, "key": "env:OPENAI_API_KEY"}]}, "OPENAI_API_KEY@127.0.0.1:28920"),
    ],
)
def test_any_other_pair_is_refused_with_the_entry_that_allows_it(settings, entry):
    with pytest.raises(JudgeSettingsError) as caught:
        keys({}, **settings)
    assert f'expected GRADEBOOK_ALLOW_KEYS="{entry}" in the environment' in str(caught.value)
    assert "sk-own" not in str(caught.value)
    if "secret:" not in entry:
        assert set(keys({"GRADEBOOK_ALLOW_KEYS": entry}, **settings)) <= set(KEY.values())


def test_a_file_without_a_key_says_so_where_its_server_wants_one():
    words = refused_key_sentence(JudgeSettings(model="m", base_url=ELSEWHERE), KEY)
    assert words.startswith("no key was sent") and 'GRADEBOOK_ALLOW_KEYS="VARIABLE@127.0.0.1:28920"' in words
    assert refused_key_sentence(JudgeSettings(model="m"), KEY) == "it does not accept the key in OPENAI_API_KEY"


@pytest.mark.parametrize("name", ["gpt-4o-mini", "meta/llama-4", "general_answer"])
def test_a_bare_name_is_a_model_and_never_a_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    if "/" not in name:
        (tmp_path / name).write_text(f"model: theirs\nbase_url: {ELSEWHERE}\n", encoding="utf-8")
    judge, endpoint = read_judge(name, {}), read_endpoint(name, {})
    assert isinstance(judge, JudgeSettings)
    assert (judge.model, endpoint.model, judge.base_url) == (name, name, "https://api.openai.com/v1")


def test_a_suffix_or_the_start_of_a_path_makes_a_file(tmp_path):
    for name in ("j.yaml", "a/j.yml", "./j", "../j", "/etc/j"):
        assert is_settings_file(name, tmp_path)


def test_a_model_s_name_that_is_a_file_too_is_refused(tmp_path):
    (tmp_path / "openai").mkdir()
    (tmp_path / "openai" / "gpt-4o").touch()
    with pytest.raises(JudgeSettingsError, match=r"expected \./openai/gpt-4o"):
        is_settings_file("openai/gpt-4o", tmp_path)


def test_an_allowed_program_prints_a_token_for_an_allowed_host_and_is_run_again_when_it_is_old(tmp_path, monkeypatch):
    program = tmp_path / "token"
    program.write_text("#!/bin/sh\necho >> runs\necho token-$(wc -l < runs)\n")
    program.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    own = {"GRADEBOOK_ALLOW_PROGRAMS": str(program), "GRADEBOOK_ALLOW_KEYS": "command@llm.example"}
    judge = {"base_url": "https://llm.example/v1", "key": f"command:{program}"}
    for lacking in own:
        with pytest.raises(JudgeSettingsError, match=lacking):
            keys({name: value for name, value in own.items() if name != lacking}, **judge)
    with pytest.raises(JudgeSettingsError, match="command@other.example"):
        keys(own, **judge | {"base_url": "https://other.example/v1"})
    assert keys(own, **judge) == keys(own, **judge) == ("token-1",)
    monkeypatch.setattr("gradebook.tasks.judging.settings.keys.TOKEN_AGE_S", -1.0)
    assert fresh_key(JudgeSettings.model_validate({"model": "m"} | judge), "token-1") == "token-2"


@pytest.mark.parametrize(
    ("lines", "said"),
    [("exit 3", "status 3"), ("true", "printed no token"), ("printf 'a\\nb'", "printed no token")],
)
def test_a_program_that_prints_no_token_is_named_without_its_words(tmp_path, lines, said):
    program = tmp_path / "token"
    program.write_text(f"#!/bin/sh\necho CANARY >&2\n{lines}\n")
    program.chmod(0o700)
    with pytest.raises(EndpointUnavailable, match=said) as caught:
        fresh_key(Address(key=f"command:{program} CANARY"), "")
    assert "CANARY" not in str(caught.value)

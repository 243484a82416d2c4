"""What `--judge` may name, and what is said where it is wrong."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings
from gradebook.tasks.judging.settings.model import DEFAULT_BASE_URL
from gradebook.tasks.ledger.past_judges import PastJudge

LOCAL = {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/"}


def write(folder: Path, text: str) -> str:
    path = folder / "judge.yaml"
    path.write_text(text)
    return str(path)


def test_a_name_is_a_model():
    assert read_judge("gpt-4o-mini", {}) == JudgeSettings(model="gpt-4o-mini", base_url=DEFAULT_BASE_URL)


def test_the_address_comes_from_the_environment():
    assert read_judge("m", LOCAL) == JudgeSettings(model="m", base_url="http://127.0.0.1:8000/v1")


def test_the_judge_files_address_comes_first(tmp_path: Path):
    judge = write(tmp_path, "model: m\nbase_url: https://a.example/v1\n")
    assert read_judge(judge, LOCAL) == JudgeSettings(model="m", base_url="https://a.example/v1")


def test_recorded_replies_are_named_with_replay(tmp_path: Path):
    (tmp_path / "replies.jsonl").write_text("")
    settings = read_judge(f"replay:{tmp_path / 'replies.jsonl'}", {})
    assert isinstance(settings, ReplaySettings)
    assert settings.judge == "replay:replies.jsonl"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modle: m", r"judge\.yaml: modle: found an unknown setting, expected one of base_url, key, key_header"),
        (
            "model: m\nprices: {input: 1}",
            r"prices\.input: found an unknown .* input_usd, output_usd, cached_usd",
        ),
        ("base_url: http://x", r"judge\.yaml: model: found nothing, expected a value"),
        ("model: m\nmax_tokens: 0", r"judge\.yaml: max_tokens: found 0, expected"),
        ("model: m\nbase_url: x", r"judge\.yaml: base_url: .* http://"),
        ("model: m\nquery: {a: 1.10}", r"judge\.yaml: query: .* expected a text for a: put it in quotation marks"),
        ("model: m\nquery: {a: true}", r"judge\.yaml: query: .* expected a text for a: put it in quotation marks"),
        ("- m", r"judge\.yaml: found list, expected settings"),
        ("a: [", r"judge\.yaml: found no YAML"),
    ],
)
def test_a_fault_names_file_setting_found_and_expected(tmp_path: Path, text: str, said: str):
    with pytest.raises(JudgeSettingsError, match=said):
        read_judge(write(tmp_path, text), {})


def test_every_fault_of_a_judge_file_is_told_at_once(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match=r"(?s)modle.*timeout_s|timeout_s.*modle"):
        read_judge(write(tmp_path, "model: m\nmodle: m\ntimeout_s: -1"), {})


@pytest.mark.parametrize("name", ["none.yaml", "replay:none.jsonl"])
def test_a_file_that_is_not_there_is_named(name: str):
    with pytest.raises(JudgeSettingsError, match=name.removeprefix("replay:")):
        read_judge(name, {})


@pytest.mark.parametrize(
    "text",
    [
        "model: m\napi_key: CANARY",
        "model: m\nkey: sk-CANARY",
        "model: m\nbase_url: http://u:CANARY@h/v1",
        "model: m\nfallbacks: [{base_url: 'http://u:CANARY@h/v1'}]",
        "model: m\nfallbacks: [{base_url: http://h, key: sk-CANARY}]",
        "a: [CANARY",
    ],
)
def test_a_secret_in_a_judge_file_is_not_repeated(tmp_path: Path, text: str):
    with pytest.raises(JudgeSettingsError) as caught:
        read_judge(write(tmp_path, text), {})
    assert "CANARY" not in str(caught.value)


def test_a_wrong_address_in_the_environment_is_told_as_such():
    with pytest.raises(JudgeSettingsError, match="environment: OPENAI_BASE_URL"):
        read_judge("m", {"OPENAI_BASE_URL": "nowhere"})


@pytest.mark.parametrize("change", [{"timeout_s": 5.0}, {"max_in_flight": 2}, {"base_url": "http://x"}])
def test_the_digest_does_not_see(change: dict[str, object]):
    assert JudgeSettings.model_validate({"model": "m"} | change).judge_digest == JudgeSettings(model="m").judge_digest


@pytest.mark.parametrize("change", [{"model": "n"}, {"temperature": 1}, {"seed": 1}, {"max_tokens": 9}])
def test_the_digest_sees(change: dict[str, object]):
    assert JudgeSettings.model_validate({"model": "m"} | change).judge_digest != JudgeSettings(model="m").judge_digest


@pytest.mark.parametrize(
    "change", [{"reasoning_effort": "low"}, {"verbosity": "low"}, {"thinking": 0}, {"extra_body": {"top_k": 1}}]
)
def test_an_optional_setting_is_part_of_the_digest_where_it_is_set_and_of_a_restored_judge(change: dict[str, object]):
    judge = JudgeSettings.model_validate({"model": "m"} | change)
    assert judge.identity == JudgeSettings(model="m").identity | change
    assert PastJudge("m", judge.identity, {}).restore(None, None) == judge


@pytest.mark.parametrize("change", [{"key_header": "api-key"}, {"headers": {"X-Team": "a"}}, {"query": {"a": "b"}}])
def test_the_way_to_a_model_is_no_part_of_the_digest(change: dict[str, object]):
    assert JudgeSettings.model_validate({"model": "m"} | change).judge_digest == JudgeSettings(model="m").judge_digest


@pytest.mark.parametrize(
    "text",
    [
        "headers: {Authorization: CANARY}",
        "headers: {X-Api-Key: CANARY}",
        "headers: {Content-Length: '1'}",
        'headers: {X-Team: "a\\nCANARY: b"}',
        "headers: {'X Team': CANARY}",
        "key_header: host",
        "query: {'': CANARY}",
        "extra_body: {temperature: 1}",
        "reasoning_effort: 'CANARY'",
    ],
)
def test_a_header_a_query_or_a_body_that_gradebook_sets_is_refused_and_not_shown(tmp_path: Path, text: str):
    with pytest.raises(JudgeSettingsError) as caught:
        read_judge(write(tmp_path, f"model: m\n{text}"), {})
    assert "CANARY" not in str(caught.value) or "reasoning_effort" in text

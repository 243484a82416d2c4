"""A look at the endpoint before anything is spent."""

from contextlib import nullcontext

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.session import session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.judging.transport.redaction import KeyMask
from tests.support.asked import CANARY, NOWHERE
from tests.support.law_over import law_over
from tests.support.loopback_judge import LoopbackJudge


def look_at(settings: JudgeSettings) -> None:
    probe(settings, read_keys(settings, {"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": settings.base_url}))


def test_the_probe_is_content_with_an_answer(judge: LoopbackJudge):
    look_at(JudgeSettings(model="m", base_url=judge.base_url))


def test_the_probe_names_an_address_where_nobody_is():
    with pytest.raises(EndpointUnavailable, match=r"127\.0\.0\.1:9"):
        look_at(JudgeSettings(model="m", base_url=NOWHERE))


def test_the_probe_names_the_keys_variable(judge: LoopbackJudge):
    judge.key = "another"
    with pytest.raises(EndpointUnavailable, match="OPENAI_API_KEY"):
        look_at(JudgeSettings(model="m", base_url=judge.base_url))


@pytest.mark.parametrize(("passed_s", "is_asked"), [(0.0, False), (session.PROBED_FOR_S, True)])
def test_the_probe_of_a_commands_start_stands_for_that_of_its_run_and_no_later_one(
    judge: LoopbackJudge, monkeypatch: pytest.MonkeyPatch, passed_s: float, is_asked: bool
):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    settings = JudgeSettings(model="m", base_url=judge.base_url)
    session.probe_members(settings, (0,), is_start=True)
    judge.key = "another"
    monkeypatch.setattr(session, "PROBED_FOR_S", session.PROBED_FOR_S - passed_s)
    with pytest.raises(EndpointUnavailable) if is_asked else nullcontext():
        session.probe_members(settings, (0,))
    with pytest.raises(EndpointUnavailable):
        session.probe_members(settings, (0,))


@pytest.mark.parametrize("key", [CANARY, "another"])
def test_the_probe_names_the_address_with_the_version(judge: LoopbackJudge, key: str):
    judge.key = key
    base_url = judge.base_url.removesuffix("/v1")
    with pytest.raises(EndpointUnavailable, match=rf"answered HTTP 404, and .* `base_url: {judge.base_url}`"):
        look_at(JudgeSettings(model="m", base_url=base_url))
    assert judge.request_count == 0


def test_an_endpoint_without_a_list_of_models_passes(judge: LoopbackJudge):
    look_at(JudgeSettings(model="m", base_url=judge.base_url + "/elsewhere"))


@law_over(
    ("body", "text"),
    [
        ({"message": "The key expired."}, "HTTP 403: The key expired."),
        ({"error": "no such model"}, "HTTP 403: no such model"),
        ({"error": {"detail": ["no such", "model"]}}, "HTTP 403: no such"),
        ({"detail": "Not Found"}, "HTTP 403: Not Found"),
        ("Forbidden\n", "HTTP 403: Forbidden"),
        ("<!DOCTYPE html><title>Sign in</title>", "HTTP 403: a page of HTML"),
        ({"message": 5}, "HTTP 403"),
        ({"message": f"bad key {CANARY}"}, "HTTP 403: bad key [key]"),
        (None, "HTTP 403"),
    ],
)
def test_the_reason_of_an_error_is_found_where_servers_write_it(body: object, text: str):
    assert KeyMask(CANARY).status_text(403, body) == text

"""A look at the endpoint before anything is spent."""

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from tests.support.asked import CANARY, NOWHERE
from tests.support.loopback_judge import LoopbackJudge


def look_at(settings: JudgeSettings) -> None:
    probe(settings, read_keys(settings, {"OPENAI_API_KEY": CANARY}))


def test_the_probe_is_content_with_an_answer(judge: LoopbackJudge):
    look_at(JudgeSettings(model="m", base_url=judge.base_url))


def test_the_probe_names_an_address_where_nobody_is():
    with pytest.raises(EndpointUnavailable, match=r"127\.0\.0\.1:9"):
        look_at(JudgeSettings(model="m", base_url=NOWHERE))


def test_the_probe_names_the_keys_variable(judge: LoopbackJudge):
    judge.key = "another"
    with pytest.raises(EndpointUnavailable, match="OPENAI_API_KEY"):
        look_at(JudgeSettings(model="m", base_url=judge.base_url))

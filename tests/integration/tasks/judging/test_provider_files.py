"""Judge files of the page on providers, each against a server that refuses, returns, counts and errs as it does.

Every profile of `tests/support/providers` passes the same: 30 questions at the right price, a budget, a resumed run.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradebook.rubrics.model.errors import BudgetReached, EndpointUnavailable
from gradebook.tasks.judging.prices import Price, worst_cost_usd
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.files import validate_settings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import CANARY, TONE, ask_each, journaled, make_question
from tests.support.loopback_judge import LoopbackJudge
from tests.support.provider_profiles import PROFILES, Profile

PAGE = Path(__file__).parents[4] / "docs" / "providers.md"
FILES = {
    block.partition(" -->")[0]: block.partition("```yaml\n")[2].partition("```")[0]
    for block in PAGE.read_text(encoding="utf-8").split("<!-- ")[1:]
    if not block.startswith("providers: ")
}
PLACES = {
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
    "AWS_REGION": "us-east-1",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "GOOGLE_CLOUD_PROJECT": "p",
}
PRICE = Price(input_usd=2e-6, cached_usd=0.5e-6, output_usd=8e-6, write_usd=2.5e-6)
BREVITY = TONE.model_copy(update={"id": "brevity", "description": "Is it brief?"})
TEXT = " ".join(f"word{place % 97}" for place in range(900))  # long enough for a cache
MOST_PROMPT_TOKENS = 10_000  # bytes of a prompt with it, rounded up
ERRORS = [(name, fault) for name, profile in PROFILES.items() for fault in profile.errs]
SAID = {
    "key": "does not accept the key",
    "model": "serves the model",
    "quota": "the quota is used up: add credit to the account",
}


def test_every_file_of_the_page_has_a_profile_and_every_profile_a_source():
    assert FILES.keys() <= PROFILES.keys()
    for profile in PROFILES.values():
        errors = (*profile.refuses.values(), *profile.errs.values())
        sources = [profile.counts.source, *(error.source for error in errors)]
        assert all(source.startswith("https://") for source in sources)


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Function that asks a provider's server, as its file says, with the key where the file names it."""
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in PLACES.items():
        monkeypatch.setenv(variable, value)

    def ask(name: str, server: LoopbackJudge, questions: Sequence[Question], budget_usd: float | None = None):
        profile, settings = PROFILES[name], settings_of(name)
        assert (settings.base_url.split("/")[2], settings.model) == (profile.place.host, profile.place.model)
        place_key(settings, profile, server, tmp_path, monkeypatch)
        asked: dict[str, Any] = settings.model_dump(exclude_unset=True) | {"base_url": server.base_url}
        if profile.place.variable is not None:
            asked["key"] = f"env:{profile.place.variable}"
        settings = JudgeSettings.model_validate(asked | {"patience_s": 0.2, "prices": None})
        answers: list[Answer] = []
        with open_session(
            settings, journal_folder=tmp_path / "journal", run_id="run", money=Money(budget_usd), price=PRICE
        ) as session:
            session.ask([replace(question, style=settings.style) for question in questions], answers.append)
        return answers

    return ask


def settings_of(name: str) -> JudgeSettings:
    """Settings in the file of the page, or of a model by its name alone."""
    written = yaml.safe_load(FILES.get(name, f"model: {PROFILES[name].place.model}"))
    return validate_settings(JudgeSettings, written, {**PLACES, "HOME": "/nowhere"}, name)


def serve(name: str) -> LoopbackJudge:
    profile = PROFILES[name]
    is_keyed = profile.place.variable is not None or name == "vertex"
    return profile.server(CANARY if is_keyed else None)


def place_key(
    settings: JudgeSettings, profile: Profile, server: LoopbackJudge, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put the key where the file names it, and allow it at the server."""
    host = server.base_url.split("/")[2]
    if profile.place.variable is not None:
        monkeypatch.setenv(profile.place.variable, CANARY)
        monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"{profile.place.variable}@{host}")
    elif settings.key is not None:
        program = folder / "bin" / "gcloud"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {CANARY}\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        monkeypatch.setenv("GRADEBOOK_ALLOW_PROGRAMS", settings.key.removeprefix("command:"))
        monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"command@{host}")


def questions_of(case_count: int) -> list[Question]:
    """Two criteria of each case, whose text is long enough for a cache."""
    firsts = [make_question(number, TEXT) for number in range(case_count)]
    return ask_each(firsts, (TONE, BREVITY))


@pytest.mark.parametrize("name", PROFILES)
def test_thirty_questions_cost_what_the_provider_bills(judged, tmp_path: Path, name: str):
    with serve(name) as server:
        answers = judged(name, server, questions_of(15))
    assert [answer.status for answer in answers] == ["scored"] * 30
    rows = journaled(tmp_path / "journal").to_pylist()
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(PROFILES[name].bill_usd(server, PRICE))
    assert CANARY not in str(rows)


@pytest.mark.parametrize("name", PROFILES)
def test_a_budget_holds_and_the_next_command_asks_the_rest_alone(judged, tmp_path: Path, name: str):
    profile, questions, settings = PROFILES[name], questions_of(15), settings_of(name)
    budget_usd = 0.04 + worst_cost_usd(PRICE, MOST_PROMPT_TOKENS, settings.token_limit(), settings.service_tier)
    with serve(name) as server:
        with pytest.raises(BudgetReached):
            judged(name, server, questions, budget_usd=budget_usd)
        bill_usd = profile.bill_usd(server, PRICE)
        before = {row["request_key"] for row in journaled(tmp_path / "journal").to_pylist()}
        answered = server.answered_count
        judged(name, server, [question for question in questions if question.request_key not in before])
    assert 0 < len(before) < 30
    assert bill_usd <= budget_usd
    assert answered == len(before) and server.answered_count == 30


@pytest.mark.parametrize(("name", "fault"), ERRORS)
def test_an_error_is_what_it_is(judged, name: str, fault: str):
    with serve(name) as server:
        if fault in ("key", "model"):
            setattr(server, fault, "another")
        else:
            server.faults = [fault] * (99 if fault == "quota" else 1)
        if fault in SAID:
            with pytest.raises(EndpointUnavailable, match=SAID[fault]) as caught:
                judged(name, server, questions_of(2))
            assert CANARY not in str(caught.value)
            return
        answers = judged(name, server, questions_of(4))
    reasons = [answer.reason or "" for answer in answers if answer.status != "scored"]
    assert len(reasons) == (fault == "long") and server.answered_count == 8 - len(reasons)

"""Typed questions to a decision model on loopback, in both forms, and what its service may do wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from gradebook.rubrics.model.errors import BudgetReached, EndpointUnavailable
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.decisions import question_digest
from gradebook.rubrics.prompts.media import read_media
from gradebook.rubrics.prompts.prompt import Case, case_digest, request_key
from gradebook.tasks.judging.prices import Price
from gradebook.tasks.judging.replies.batched_criteria import DecisionQuestions, PackedAnswers, typed_requests
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import JudgingSession, Money, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import journaled
from tests.support.loopback_decisions import LoopbackDecisions
from tests.support.media_samples import chat, coded, image_part, png, text_part

OUTPUTS = 4
TONE = [{"id": each, "score": score} for each, score in (("bad", 0), ("fair", 0.5), ("good", 1))]
HELPS = [{"id": each, "score": score, "description": f"It is {each}."} for each, score in (("no", 0), ("yes", 1))]
SAFE = [{"id": "fail", "score": 0}, {"id": "pass", "score": 1}]
CRITERIA = [
    Criterion.model_validate(
        {"id": name, "description": f"Is it {name}?", "method": {"type": "judge"}, "levels": levels}
    )
    for name, levels in {"tone": TONE, "helps": HELPS, "safe": SAFE}.items()
]
PRICE = Price(input_usd=1e-6, cached_usd=1e-6, output_usd=0.0)


@pytest.fixture
def server() -> Iterator[LoopbackDecisions]:
    with LoopbackDecisions() as decisions:
        yield decisions


@pytest.fixture(params=["systemone", "decisions"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def questions(number: int, output: str = "Thank you for asking.") -> list[Question]:
    case = Case(f"Question {number}?", output)
    keys = [request_key("0" * 32, question_digest(each), case_digest(case)) for each in CRITERIA]
    return [Question(f"{number:032x}", each, case, key) for each, key in zip(CRITERIA, keys, strict=True)]


def settings_of(server: LoopbackDecisions, form: str = "systemone", **changes: Any) -> JudgeSettings:
    own = {"model": "jev", "form": form, "base_url": f"{server.base_url}/v1", "max_in_flight": 1, "patience_s": 0.2}
    return JudgeSettings.model_validate(own | {"max_attempts": 2} | changes)


def ask(
    server: LoopbackDecisions, folder: Path, form: str = "systemone", *, asked: Any = None, **changes: Any
) -> list[Answer]:
    """Ask all criteria of some outputs; by default of `OUTPUTS`."""
    settings, answers = settings_of(server, form, **changes), []
    outputs = [questions(number) for number in range(OUTPUTS)] if asked is None else asked
    with open_session(settings, journal_folder=folder, run_id="run", price=PRICE) as session:
        _ask(session, outputs, answers)
    return answers


def _ask(session: JudgingSession, outputs: list[list[Question]], answers: list[Answer]) -> None:
    def keep(came: PackedAnswers) -> None:
        answers.extend(came.answers)

    session.ask([each for one in outputs for each in typed_requests(one, session.settings)], keep)


def reasons(answers: list[Answer]) -> dict[str, list[str]]:
    """Criteria without a level, by the beginning of the reason."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        if answer.status != "scored":
            found.setdefault(str(answer.reason).partition(":")[0], []).append(answer.question.criterion_id)
    return found


def test_questions_about_an_output_ride_in_one_request_and_each_is_journaled(server, form, tmp_path):
    answers = ask(server, tmp_path, form)
    assert reasons(answers) == {}
    assert (server.request_count, server.question_count) == (OUTPUTS, 3 * OUTPUTS)
    rows = journaled(tmp_path).to_pylist()
    assert {row["request_key"] for row in rows} == {key for n in range(OUTPUTS) for key in _keys(n)}
    assert sum(row["prompt_tokens"] for row in rows) == server.input_tokens
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(server.input_tokens * 1e-6)
    assert all(len(json.loads(row["reply"])) == 1 for row in rows)  # its own answer alone


def _keys(number: int) -> list[str]:
    return [each.request_key for each in questions(number)]


def test_both_forms_ask_the_same_and_give_the_same_distribution(server, tmp_path):
    found = [
        {(each.question.output_id, each.question.criterion_id): each.distribution for each in ask(server, folder, form)}
        for form, folder in (("systemone", tmp_path / "a"), ("decisions", tmp_path / "b"))
        if folder.mkdir() is None
    ]
    assert found[0] == found[1]
    assert None not in found[0].values()


FIRST_LOST = {"refusal": "refused", "missing": "no_answer", "null": "no_answer"} | dict.fromkeys(
    ("sum", "nan", "negative", "text", "unknown option", "swapped", "confidence", "other type"), "parse_error"
)


@pytest.mark.parametrize("fault", FIRST_LOST)
def test_a_bad_answer_loses_its_own_question_with_the_reason(server, form, tmp_path, fault):
    server.faults = [fault] * 2  # of the request, and of the question that is asked again
    answers = ask(server, tmp_path, form)
    expected = ["tone", "tone"] if fault == "refusal" else ["tone"]
    assert reasons(answers) == {FIRST_LOST[fault]: expected}
    lost = next(answer for answer in answers if answer.status != "scored")
    assert (lost.level_id, lost.distribution) == (None, None)
    assert bool(lost.rationale) == (fault != "refusal")


@pytest.mark.parametrize("fault", ["missing", "sum"])
def test_a_lost_answer_is_asked_for_once_more_by_itself(server, form, tmp_path, fault):
    server.faults = [fault]
    assert reasons(ask(server, tmp_path, form)) == {}
    assert (server.request_count, server.question_count) == (OUTPUTS + 1, 3 * OUTPUTS + 1)


@pytest.mark.parametrize("fault", ["unasked", "other state", "twice", "garbage"])
def test_a_reply_that_may_be_about_another_text_is_used_for_no_question(server, form, tmp_path, fault):
    if (fault, form) == ("twice", "systemone"):
        pytest.skip("an object has a name once")
    server.faults = [fault] * 2
    answers = ask(server, tmp_path, form)
    assert reasons(answers) == {"parse_error": ["tone", "helps", "safe"]}


@pytest.mark.parametrize("fault", ["500", "429", "error in 200", "drop"])
def test_a_passing_failure_is_asked_again(server, form, tmp_path, fault):
    server.faults = [fault]
    assert reasons(ask(server, tmp_path, form)) == {}
    assert server.request_count == OUTPUTS + 1


def test_a_slow_answer_is_asked_for_again_after_the_timeout(server, tmp_path):
    server.faults = ["hang"]
    assert reasons(ask(server, tmp_path, timeout_s=0.3, patience_s=5)) == {}


def test_rounded_probabilities_are_read(server, form, tmp_path):
    server.digits = 2
    answers = ask(server, tmp_path, form)
    assert reasons(answers) == {}
    assert all(sum(json.loads(each.distribution or "").values()) == pytest.approx(1) for each in answers)


def test_a_server_whose_model_takes_no_typed_questions_ends_the_run(server, tmp_path):
    server.faults = ["501"] * 100
    with pytest.raises(
        EndpointUnavailable, match=r"HTTP 501.*expected a server whose model can be asked at /systemone"
    ):
        ask(server, tmp_path)
    assert server.request_count == 1


@pytest.mark.parametrize("key", [None, "wrong-0123456789"])
def test_a_missing_key_and_a_wrong_one_end_the_run_unwritten(server, tmp_path, monkeypatch, key):
    server.key = "right"
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", "DECISION_KEY@http://127.0.0.1")
    monkeypatch.setenv("DECISION_KEY", key or "")
    with pytest.raises(EndpointUnavailable) as fault:
        ask(server, tmp_path, **({"key": "env:DECISION_KEY"} if key else {}))
    assert "wrong-0123456789" not in str(fault.value)


def test_a_service_that_never_answers_readably_ends_the_run(server, form, tmp_path):
    server.faults = ["other state"] * 100
    with pytest.raises(EndpointUnavailable, match="expected an answer with probabilities to each question"):
        ask(server, tmp_path, form, asked=[questions(number) for number in range(10)])
    assert server.request_count <= 8


def test_requests_over_a_ceiling_are_sent_in_parts(server, form, tmp_path):
    ask(server, tmp_path, form, asked=[questions(0)])
    server.most_request_tokens = server.input_tokens - 1  # one token less than the three questions and their state
    answers = ask(server, tmp_path, form, asked=[questions(1)])
    assert reasons(answers) == {}
    assert [len(body["questions"]) for body in server.bodies] == [3, 3, 1, 2]


def test_known_ceilings_split_a_request_before_it_is_sent(server, form, tmp_path):
    request = DecisionQuestions(tuple(questions(0))).request()
    most = len(orjson.dumps(request.messages)) + len(orjson.dumps(request.schema)) - 1
    answers = ask(server, tmp_path, form, asked=[questions(0)], ceilings={"request_bytes": most})
    assert reasons(answers) == {}
    assert [len(body["questions"]) for body in server.bodies] == [1, 2]


@pytest.mark.parametrize("ceilings", [{}, {"question_tokens": 1_000}, {"request_bytes": 4_000}])
def test_a_state_over_a_ceiling_is_refused_and_never_cut(server, form, tmp_path, ceilings):
    server.most_question_tokens = 1_000
    answers = ask(server, tmp_path, form, asked=[questions(0, "So it is. " * 2_000)], ceilings=ceilings)
    assert reasons(answers) == {"too_long": ["tone", "helps", "safe"]}
    assert (server.request_count == 0) == bool(ceilings)


def test_a_state_that_is_cut_in_silence_shows_in_the_counts(server, tmp_path):
    server.cuts_at = 100
    answers: list[Answer] = []
    with open_session(settings_of(server), journal_folder=tmp_path, run_id="run", price=PRICE) as session:
        _ask(session, [questions(0, "So it is. " * 2_000)], answers)
        assert "may cut prompts" in (session.doubt(is_maybe_cut=True) or "")
    assert journaled(tmp_path)["cost_usd"].null_count == 3


def test_a_budget_holds_where_the_state_is_billed_once_a_question(server, form, tmp_path):
    server.counts_state_each = True
    settings, answers = settings_of(server, form), []
    money = Money(0.02)  # a request may cost up to three states
    with (
        open_session(settings, journal_folder=tmp_path, run_id="run", money=money, price=PRICE) as session,
        pytest.raises(BudgetReached, match="the next request could cost"),
    ):
        _ask(session, [questions(number) for number in range(100)], answers)
    assert 0 < server.input_tokens * 1e-6 <= 0.02


def test_questions_that_another_session_asks_are_taken_from_it(server, tmp_path):
    outputs = [questions(number) for number in range(OUTPUTS)]
    answers: list[Answer] = []
    with (
        open_session(settings_of(server), journal_folder=tmp_path, run_id="a", price=PRICE) as first,
        open_session(settings_of(server), journal_folder=tmp_path, run_id="b", price=PRICE) as second,
    ):
        first.open_leases(lambda _: {}).acquire([each.request_key for one in outputs for each in one[:2]])
        second.open_leases(lambda _: {}).acquire([each.request_key for one in outputs for each in one])
        _ask(first, [one[:2] for one in outputs], [])
        _ask(second, outputs, answers)
    assert server.question_count == 3 * OUTPUTS
    assert {(each.question.criterion_id, each.paid_by) for each in answers} == {
        ("tone", "a"),
        ("helps", "a"),
        ("safe", None),
    }


def test_an_image_is_shown_in_the_way_of_each_form(server, form, tmp_path):
    content = png()
    texts = read_media(chat(text_part("What is it?"), image_part("file:dot.png")), "A dot.", lambda *_: content)
    case = Case(texts.prompt, texts.output, media=texts.media)
    shown = [replace(each, case=case) for each in questions(0)]
    assert reasons(ask(server, tmp_path, form, asked=[shown])) == {}
    (body,) = server.bodies
    url = f"data:image/png;base64,{coded(content)}"
    parts = body["input"][0]["content"] if form == "decisions" else []
    assert ([part["image_url"] for part in parts if part["type"] == "input_image"] or body.get("images")) == [url]

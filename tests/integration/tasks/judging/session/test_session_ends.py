"""What ends a run, and what is not told of it: the key."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gradebook.rubrics.model.errors import EndpointUnavailable, RefusedSetting, UnfinishedError
from gradebook.tasks.judging.replies.question import Answer
from gradebook.tasks.judging.session.session import Money, open_session, open_sessions
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import CANARY, NOWHERE, ask, journaled, make_question, same_question
from tests.support.loopback_judge import LoopbackJudge


def test_the_end_of_a_run_reaches_all_who_wait(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s, judge.key = 0.02, "another"
    settings = JudgeSettings(model="m", base_url=judge.base_url)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session, ThreadPoolExecutor(2) as pool:
        asks = [pool.submit(session.ask, map(same_question, range(4)), id) for _ in range(2)]
        assert [type(asking.exception()) for asking in asks] == [EndpointUnavailable] * 2
    assert judge.request_count == 1


def test_a_refused_key_ends_the_run_at_once(judge: LoopbackJudge, tmp_path: Path):
    judge.key = "another"
    with pytest.raises(EndpointUnavailable, match="OPENAI_API_KEY"):
        ask(judge, tmp_path, count=20, max_in_flight=1)
    assert judge.request_count == 1


def test_a_used_up_quota_ends_the_run_at_once(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["quota"]
    with pytest.raises(EndpointUnavailable, match="quota"):
        ask(judge, tmp_path, count=20, max_in_flight=1)
    assert judge.request_count == 1


def test_an_endpoint_that_is_gone_ends_the_run(tmp_path: Path):
    gone = LoopbackJudge()
    gone.base_url = NOWHERE
    with pytest.raises(EndpointUnavailable, match=r"127\.0\.0\.1:9"):
        ask(gone, tmp_path, count=100, max_attempts=1)


@pytest.mark.parametrize("fault", ["404", "401", "quota"])
def test_the_servers_reason_is_passed_on(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    with pytest.raises(EndpointUnavailable, match="answered HTTP 4.*: scripted"):
        ask(judge, tmp_path)


@pytest.mark.parametrize("fault", ["400", "500", "401", "quota", "404"])
def test_the_key_is_in_no_reason_and_no_error(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault, fault]
    try:
        said = repr(ask(judge, tmp_path))
    except EndpointUnavailable as error:
        said = str(error)
    assert said
    assert CANARY not in said


def test_the_key_is_in_no_journal(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["echo"]
    ask(judge, tmp_path)
    assert CANARY not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_a_judge_without_log_probabilities_is_asked_once(judge: LoopbackJudge, tmp_path: Path):
    judge.has_logprobs = False
    with pytest.raises(EndpointUnavailable, match="m gives no log-probabilities.*`mode: reply`"):
        ask(judge, tmp_path, count=20, mode="logprobs")
    assert judge.request_count == 1


def test_a_short_outage_loses_nothing(tmp_path: Path, judge: LoopbackJudge):
    judge.faults = ["503"] * 4  # three in a row and nobody answers: from there on one request at a time looks for it
    answers = ask(judge, tmp_path, count=6, patience_s=30)
    assert [answer.status for answer in answers] == ["scored"] * 6


def test_an_endpoint_that_only_fails_ends_the_run(judge: LoopbackJudge, tmp_path: Path):
    judge.fault_rates = {"503": 1.0}
    with pytest.raises(EndpointUnavailable, match=r"no request was answered for 0\.2 s, .* HTTP 503"):
        ask(judge, tmp_path, count=20, max_attempts=100)


def test_another_address_takes_over_where_one_is_gone(judge: LoopbackJudge, tmp_path: Path):
    fallbacks = ({"base_url": judge.base_url},)
    answers = ask(judge, tmp_path, count=6, base_url=NOWHERE, fallbacks=fallbacks)
    assert [answer.status for answer in answers] == ["scored"] * 6


def test_another_address_takes_over_where_the_key_is_refused(
    judge: LoopbackJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPARE_KEY", CANARY)
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", "SPARE_KEY@127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-expired-0123456789")
    fallbacks = ({"base_url": judge.base_url, "key": "env:SPARE_KEY"},)
    assert [answer.status for answer in ask(judge, tmp_path, count=3, fallbacks=fallbacks)] == ["scored"] * 3


def test_requests_that_are_too_long_end_no_run(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["413"] * 6
    answers = ask(judge, tmp_path, count=20, max_in_flight=1)
    assert [answer.status for answer in answers] == ["unscored"] * 6 + ["scored"] * 14


def test_a_request_that_is_forbidden_later_is_one_verdict(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["", "403"]
    answers = ask(judge, tmp_path, count=3, max_in_flight=1)
    assert [answer.status for answer in answers] == ["scored", "unscored", "scored"]


def test_a_deadline_ends_a_run_and_keeps_what_was_judged(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.05
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=2)
    deadline = datetime.now(UTC) + timedelta(seconds=0.4)
    with (
        open_session(settings, journal_folder=tmp_path, run_id="run", deadline=deadline) as session,
        pytest.raises(UnfinishedError, match="the deadline, .* UTC, has come.*the same command resumes"),
    ):
        session.ask(map(make_question, range(10_000)), id)
    assert judge.request_count == journaled(tmp_path).num_rows > 0


def test_after_a_deadline_nothing_is_asked(judge: LoopbackJudge, tmp_path: Path):
    settings = JudgeSettings(model="m", base_url=judge.base_url)
    deadline = datetime(2026, 1, 1, tzinfo=UTC)
    with (
        open_session(settings, journal_folder=tmp_path, run_id="run", deadline=deadline) as session,
        pytest.raises(UnfinishedError, match="the deadline, .* UTC, has come"),
    ):
        session.ask([make_question(1)], id)
    assert judge.request_count == 0


def test_a_key_that_cant_be_one_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ключ-0123456789")
    with pytest.raises(EndpointUnavailable, match="OPENAI_API_KEY holds characters"):
        open_session(JudgeSettings(model="m"), journal_folder=tmp_path, run_id="run").__enter__()
    assert list(tmp_path.iterdir()) == []


class FilteringJudge(LoopbackJudge):
    """Refuses each request by its filter, as Azure does."""

    async def _answer(self, request: web.Request, body: dict[str, Any], prompt: str) -> web.StreamResponse:
        error = {"message": "The response was filtered", "code": "content_filter", "status": 400}
        return web.json_response({"error": error}, status=400)


def test_a_request_that_the_endpoints_filter_refuses_is_filtered(tmp_path: Path):
    with FilteringJudge() as judge:
        answers = ask(judge, tmp_path, count=7, max_in_flight=1)
    assert [answer.reason for answer in answers] == ["filtered"] * 7


# -------- replies that can't be read
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("prose", r"first reply: 'I would say .* \(found no JSON object\); .*set another `model`"),
        ("garbage", "first reply: a page of HTML, '<html>a gateway</html>'; .* set `base_url`"),
        ("length", "first reply: cut off at its token limit, .* set a larger `max_tokens`"),
        ("empty", "first reply: an empty text"),
        ("thought alone", "first reply: an empty text .found reasoning alone, .*: turn it off for this model"),
        ("stream", "first reply: a stream of events, 'data: .* turn it off at the endpoint"),
    ],
)
def test_a_judge_whose_replies_cant_be_read_ends_the_run(
    judge: LoopbackJudge, tmp_path: Path, fault: str, message: str
):
    judge.faults = [fault] * 100
    with pytest.raises(EndpointUnavailable, match=f"none of the first 5 questions to m got .* {message}"):
        ask(judge, tmp_path, count=80, max_in_flight=1)
    assert (judge.request_count, journaled(tmp_path).num_rows) == (10, 10)


@pytest.mark.parametrize(("parameter", "remedy"), [("temperature", "temperature: null"), ("response_format", "text")])
def test_a_refused_parameter_ends_the_run_with_what_to_set(
    judge: LoopbackJudge, tmp_path: Path, parameter: str, remedy: str
):
    judge.refused_parameters = (parameter,)
    with pytest.raises(RefusedSetting, match=rf"refused the first request, HTTP 400.*; set `.*{remedy}` in the judge"):
        ask(judge, tmp_path, count=5, max_in_flight=1)
    written = {"temperature": 0, "reply_format": "json_schema"}  # what a judge file names is not changed
    with pytest.raises(EndpointUnavailable, match=rf"5 requests were refused .*; set `.*{remedy}` in the judge file"):
        ask(judge, tmp_path, count=5, max_in_flight=1, **written)


def test_one_readable_reply_shows_that_a_judge_can_answer(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = [*["prose"] * 8, "", *["prose"] * 20]
    answers = ask(judge, tmp_path, count=15, max_in_flight=1)
    assert [answer.status for answer in answers] == ["unscored"] * 4 + ["scored"] + ["unscored"] * 10


def test_questions_left_over_from_a_judge_that_answers_end_no_run(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["prose"] * 20
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=1)
    answers: list[Answer] = []
    with open_sessions(settings, Money(), tmp_path, "run", is_ever_read=True) as (session,):
        session.ask(map(make_question, range(10)), answers.append)
    assert [answer.reason for answer in answers] == ["parse_error"] * 10


def test_no_key_stands_in_the_first_reply(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["echo"] * 10
    with pytest.raises(EndpointUnavailable, match="Bearer .ke") as ended:
        ask(judge, tmp_path, count=5, max_in_flight=1)
    assert CANARY not in str(ended.value)

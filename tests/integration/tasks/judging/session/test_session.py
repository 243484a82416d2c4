"""A session with a judge, against a real server on loopback: who asks, in which order, and once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.judging.replies.journal import read_journal
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import TONE, ask, journaled, make_question, same_question
from tests.support.loopback_judge import LoopbackJudge


def row_count(path: Path) -> int:
    return sum(table.num_rows for table in read_journal(path, 100))


def test_every_question_is_answered_once(judge: LoopbackJudge, tmp_path: Path):
    answers = ask(judge, tmp_path, count=50)
    assert sorted(int(answer.question.output_id, 16) for answer in answers) == list(range(50))


def test_the_same_question_gets_the_same_level(judge: LoopbackJudge, tmp_path: Path):
    assert ask(judge, tmp_path)[0].level_id == ask(judge, tmp_path)[0].level_id


def test_a_reply_is_journaled_before_it_is_handed_over(judge: LoopbackJudge, tmp_path: Path):
    settings = JudgeSettings(model="m", base_url=judge.base_url)
    counts: list[int] = []
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session:
        session.ask([make_question(1)], lambda _: counts.append(row_count(session.journal.path)))
    assert counts == [1]


def test_the_journal_keeps_what_the_reply_cost(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path, count=3)
    spent = sum(journaled(tmp_path)["cost_usd"].to_pylist())
    assert spent == pytest.approx((judge.prompt_tokens + judge.completion_tokens) * 1e-6)


def test_many_threads_share_the_slots_of_one_session(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.02
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=3)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session:
        parts = [map(make_question, range(first, first + 8)) for first in (0, 8, 16, 24)]
        asks = [threading.Thread(target=session.ask, args=(part, id)) for part in parts]
        for thread in asks:
            thread.start()
        for thread in asks:
            thread.join()
    assert (judge.most_in_flight, judge.request_count) == (3, 32)


def told(answers: list[Answer]) -> set[Any]:
    return {(answer.status, answer.level_id, answer.rationale, answer.reason) for answer in answers}


@pytest.mark.parametrize("max_in_flight", [1, 2, 32])
def test_equal_questions_are_asked_once(judge: LoopbackJudge, tmp_path: Path, max_in_flight: int):
    answers: list[Answer] = []
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=max_in_flight)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session:
        session.ask(map(same_question, range(4)), answers.append)
    assert (judge.request_count, len(told(answers))) == (1, 1)
    assert sorted(answer.question.output_id for answer in answers) == [f"{number:032x}" for number in range(4)]
    assert sorted(answer.request_count for answer in answers) == [0, 0, 0, 1]


def test_equal_questions_of_two_threads_are_asked_once(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.02
    answers: list[Answer] = []
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=2)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session, ThreadPoolExecutor(2) as pool:
        parts = [map(same_question, range(first, first + 4)) for first in (0, 4)]
        list(pool.map(lambda part: session.ask(part, answers.append), parts))
    assert (judge.request_count, len(answers), len(told(answers))) == (1, 8, 1)


def test_equal_questions_share_the_failure_of_the_first(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["400"]
    answers: list[Answer] = []
    with open_session(
        JudgeSettings(model="m", base_url=judge.base_url), journal_folder=tmp_path, run_id="run"
    ) as session:
        session.ask(map(same_question, range(4)), answers.append)
    assert (judge.request_count, len(answers), len(told(answers))) == (1, 4, 1)
    assert (answers[0].reason or "").startswith("endpoint_error: HTTP 400")


def test_a_fault_of_the_callers_own_comes_back_to_the_caller(judge: LoopbackJudge, tmp_path: Path):
    def fail(_: Answer) -> None:
        raise ZeroDivisionError

    with (
        open_session(
            JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=2), journal_folder=tmp_path, run_id="run"
        ) as session,
        pytest.raises(ZeroDivisionError),
    ):
        session.ask(map(make_question, range(100)), fail)
    assert judge.request_count == 2


def question_of(number: int, criterion_id: str) -> Question:
    return replace(
        make_question(number),
        criterion=TONE.model_copy(update={"id": criterion_id}),
        request_key=f"{number}{criterion_id}",
    )


def test_the_first_criterion_of_an_output_goes_ahead_of_the_others(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.02
    questions = [question_of(1, name) for name in ("a", "b", "c", "d")]
    with open_session(
        JudgeSettings(model="m", base_url=judge.base_url), journal_folder=tmp_path, run_id="run"
    ) as session:
        session.ask(questions, id)
    asked = dict(zip(*(journaled(tmp_path)[name].to_pylist() for name in ("criterion_id", "asked_at")), strict=True))
    first = asked.pop("a")
    assert min(asked.values()) - first >= timedelta(seconds=0.02)  # its reply was back by then
    assert judge.most_in_flight == 3


def test_other_outputs_go_on_while_a_first_criterion_is_out(judge: LoopbackJudge, tmp_path: Path):
    judge.latency_s = 0.05
    questions = [question_of(number, name) for number in range(8) for name in ("a", "b")]
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_in_flight=8)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session:
        session.ask(questions, id)
    assert judge.most_in_flight == 8

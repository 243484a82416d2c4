"""Several criteria of an output in one request, over loopback."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.prompts.batched_criteria import packed_criterion_digest, packed_prompt_digest
from gradebook.rubrics.prompts.prompt import case_digest, request_key
from gradebook.tasks.judging.replies.batched_criteria import PackedAnswers, PackedQuestion
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import PRICE, TONE, journaled, make_question
from tests.support.loopback_judge import LoopbackJudge

PACK = [TONE.model_copy(update={"id": name, "description": f"Is it {name}?"}) for name in ("warm", "brief", "true")]


def make_pack(number: int = 0) -> PackedQuestion:
    question = make_question(number)
    keys = [request_key("0" * 32, packed_criterion_digest(each, PACK), case_digest(question.case)) for each in PACK]
    return PackedQuestion(
        tuple(replace(question, criterion=each, request_key=key) for each, key in zip(PACK, keys, strict=True))
    )


def ask(judge: LoopbackJudge, folder: Path, **changes: Any) -> PackedAnswers:
    settings = JudgeSettings.model_validate({"model": "m", "base_url": judge.base_url, "packing": 3} | changes)
    answers: list[PackedAnswers] = []
    with open_session(settings, journal_folder=folder, run_id="run", price=PRICE) as session:
        session.ask([make_pack()], answers.append)
    return answers[0]


def test_each_criterion_of_a_pack_gets_an_answer_from_one_request(judge: LoopbackJudge, tmp_path: Path):
    answers = ask(judge, tmp_path).answers
    assert [(answer.question.criterion_id, answer.status) for answer in answers] == [
        ("warm", "scored"),
        ("brief", "scored"),
        ("true", "scored"),
    ]
    assert judge.request_count == 1


def test_the_judgments_of_a_pack_add_up_to_what_its_reply_took(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path)
    kept = journaled(tmp_path)
    assert sum(kept["prompt_tokens"].to_pylist()) == judge.prompt_tokens
    assert sum(kept["attempts"].to_pylist()) == 1
    assert sum(kept["cost_usd"].to_pylist()) == pytest.approx((judge.prompt_tokens + judge.completion_tokens) * 1e-6)


def test_a_bad_judgment_of_a_pack_is_asked_again_and_the_good_ones_hold(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["one liar", "one liar"]
    answers = ask(judge, tmp_path).answers
    assert [answer.reason for answer in answers] == ["evidence_unverified", None, None]
    assert judge.request_count == 2


def test_a_pack_may_take_as_many_tokens_as_its_criteria_alone(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path, max_tokens=100)
    assert judge.bodies[0]["max_tokens"] == 300


def test_a_criterions_own_limit_adds_to_those_of_the_others(judge: LoopbackJudge, tmp_path: Path):
    method = TONE.method.model_copy(update={"max_tokens": 40})
    pack = PackedQuestion(
        tuple(
            replace(each, criterion=each.criterion.model_copy(update={"method": method})) if not place else each
            for place, each in enumerate(make_pack().questions)
        )
    )
    settings = JudgeSettings(model="m", base_url=judge.base_url, packing=3, max_tokens=100)
    with open_session(settings, journal_folder=tmp_path, run_id="run") as session:
        session.ask([pack], id)
    assert judge.bodies[0]["max_tokens"] == 240


def test_a_pack_is_kept_under_the_digest_of_its_own_prompt(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path)
    assert set(journaled(tmp_path)["prompt_digest"].to_pylist()) == {packed_prompt_digest()}

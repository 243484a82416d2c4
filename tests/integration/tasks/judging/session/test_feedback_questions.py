"""Questions of another kind than a criterion, asked through a session on loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.feedback import FEEDBACK_REPLY_SCHEMA, feedback_prompt_digest
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.judging.replies.question import FeedbackAnswer, FeedbackQuestion, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.loopback_judge import LoopbackJudge

TONE = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it warm?",
        "method": {"type": "judge", "max_tokens": 33},
        "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
    }
)


@pytest.fixture
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as server:
        yield server


def make_question(number: int = 0, key: str = "") -> FeedbackQuestion:
    messages = [{"role": "system", "content": "Write."}, {"role": "user", "content": f"VERDICTS\n{number}"}]
    return FeedbackQuestion(f"{number:032x}", "m", None, False, messages, key or f"{number:032x}")


def ask(judge: LoopbackJudge, folder: Path, *questions: Any) -> list[Any]:
    settings = JudgeSettings(model="m", base_url=judge.base_url, max_attempts=1, max_tokens=100)
    answers: list[Any] = []
    with open_session(settings, journal_folder=folder, run_id="run") as session:
        session.ask(questions, answers.append)
    return answers


def journaled(folder: Path) -> list[dict[str, Any]]:
    tables = (table for path in settled_journals(folder) for table in read_journal(path, 100))
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return rows


def test_a_question_gets_an_answer_of_its_own_kind(judge: LoopbackJudge, tmp_path: Path):
    assert ask(judge, tmp_path, make_question()) == [FeedbackAnswer("0" * 32, "It is kind.", 1)]


def test_a_question_sends_its_own_messages_and_schema(judge: LoopbackJudge, tmp_path: Path):
    question = make_question()
    ask(judge, tmp_path, question)
    assert judge.bodies[0]["messages"] == question.messages
    assert judge.bodies[0]["response_format"] == {"type": "json_schema", "json_schema": FEEDBACK_REPLY_SCHEMA}


def test_a_text_is_journaled_as_a_judgment_without_a_level(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path, make_question())
    (row,) = journaled(tmp_path)
    found = {name: row[name] for name in ("criterion_id", "status", "level_id", "rationale", "prompt_digest")}
    assert found == {
        "criterion_id": "(feedback)",
        "status": "scored",
        "level_id": None,
        "rationale": "It is kind.",
        "prompt_digest": feedback_prompt_digest(),
    }


def test_equal_questions_are_asked_once(judge: LoopbackJudge, tmp_path: Path):
    answers = ask(judge, tmp_path, make_question(1, "k"), make_question(2, "k"))
    assert (judge.request_count, {answer.text for answer in answers}) == (1, {"It is kind."})
    assert sorted(answer.request_count for answer in answers) == [0, 1]


def test_a_useless_reply_is_asked_once_more_and_then_has_no_text(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["empty", "empty"]
    assert ask(judge, tmp_path, make_question())[0].text is None
    assert [row["status"] for row in journaled(tmp_path)] == ["parse_error", "parse_error"]


def test_a_truncated_reply_gets_twice_the_tokens(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["length"]
    assert ask(judge, tmp_path, make_question())[0].text == "It is kind."
    assert [body["max_tokens"] for body in judge.bodies] == [100, 200]


def test_a_refusal_is_no_text_though_its_words_are_kept(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["refusal"]
    assert ask(judge, tmp_path, make_question())[0].text is None
    assert journaled(tmp_path)[0]["rationale"] == "I can't help with that."


def test_a_call_without_a_reply_has_no_text(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["400"]
    assert ask(judge, tmp_path, make_question())[0].text is None


def test_both_kinds_of_questions_share_a_session(judge: LoopbackJudge, tmp_path: Path):
    verdict, feedback = ask(judge, tmp_path, Question("a" * 32, TONE, Case("Why?", "So."), "b" * 32), make_question())
    told = {type(verdict).__name__: verdict, type(feedback).__name__: feedback}
    assert told["Answer"].level_id in ("bad", "good")
    assert told["FeedbackAnswer"].text == "It is kind."


def test_a_criterion_still_has_its_own_limit_of_tokens(judge: LoopbackJudge, tmp_path: Path):
    ask(judge, tmp_path, Question("a" * 32, TONE, Case("Why?", "So."), "b" * 32))
    assert judge.bodies[0]["max_tokens"] == 33

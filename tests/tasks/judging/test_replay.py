"""Recorded replies: found, missing, or wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.errors import JudgeSettingsError
from rubrics.judging.prompt import Case
from rubrics.model import Criterion
from tasks.judging.journal import read_journal
from tasks.judging.questions import Answer, Question
from tasks.judging.replay import check_replies, read_replies
from tasks.judging.session import open_session
from tasks.judging.settings import read_judge

TONE = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it warm?",
        "method": {"type": "judge"},
        "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
    }
)
REPLY = {"case_id": "c1", "model": "m", "criterion_id": "tone", "level": "good", "evidence": ["Thank you"]}
QUESTION = Question("f" * 32, TONE, Case("Why?", "Thank you for asking."), "e" * 32, case_id="c1", model="m")


def write(folder: Path, *replies: dict[str, Any]) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


def replay(folder: Path, *replies: dict[str, Any]) -> Answer:
    answers: list[Answer] = []
    settings = read_judge(f"replay:{write(folder, *replies)}", {})
    with open_session(settings, journal_folder=folder / "journal", run_id="run") as session:
        session.ask([QUESTION], answers.append)
    return answers[0]


def test_a_recorded_reply_is_the_answer(tmp_path: Path):
    answer = replay(tmp_path, REPLY)
    assert (answer.status, answer.level_id, answer.evidence) == ("scored", "good", '["Thank you"]')


def test_a_replayed_answer_is_journaled_at_no_cost(tmp_path: Path):
    replay(tmp_path, REPLY)
    (judgments,) = read_journal(next((tmp_path / "journal").iterdir()), 100)
    assert [(row["judge"], row["level_id"], row["cost_usd"]) for row in judgments.to_pylist()] == [
        ("replay:replies.jsonl", "good", 0.0)
    ]


@pytest.mark.parametrize(
    "change",
    [{"case_id": "c2"}, {"model": "n"}, {"sample_index": 1}, {"checkpoint": "s1"}, {"output_id": "a" * 32}],
)
def test_a_reply_to_something_else_is_none(tmp_path: Path, change: dict[str, Any]):
    assert replay(tmp_path, REPLY | change).reason == "not_recorded"


def test_a_reply_may_name_the_output(tmp_path: Path):
    assert replay(tmp_path, REPLY | {"output_id": "f" * 32}).status == "scored"


def test_a_recorded_quote_has_to_occur_too(tmp_path: Path):
    assert replay(tmp_path, REPLY | {"evidence": ["Never said"]}).reason == "evidence_unverified"


def test_a_level_that_the_criterion_does_not_have_is_named(tmp_path: Path):
    path = write(tmp_path, REPLY | {"case_id": "c0"}, REPLY | {"level": "great"})
    with pytest.raises(JudgeSettingsError, match=r"replies\.jsonl:2: level: found 'great', .*: bad, good"):
        check_replies(path, [TONE])


def test_replies_to_other_rubrics_are_left_alone(tmp_path: Path):
    check_replies(write(tmp_path, REPLY | {"criterion_id": "length", "level": "x"}), [TONE])


@pytest.mark.parametrize(
    "change", [{"score": 5}, {"level": 5}, {"case_id": None}, {"sample_index": -1}, {"evidence": "Thank you"}]
)
def test_a_bad_line_is_named(tmp_path: Path, change: dict[str, Any]):
    with pytest.raises(JudgeSettingsError, match=rf"replies\.jsonl:2: {next(iter(change))}"):
        read_replies(write(tmp_path, REPLY, REPLY | {"case_id": "c2"} | change))


def test_the_same_reply_twice_is_named(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match=r"replies\.jsonl:2: .* line 1"):
        read_replies(write(tmp_path, REPLY, REPLY))


def test_every_bad_line_is_told_at_once(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match=r"(?s):1: .*:2: "):
        read_replies(write(tmp_path, {}, {}))

"""Recorded replies: found, missing, or wrong."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.replies.journal import read_journal
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession, UselessStatus, check_replies, read_replies
from gradebook.tasks.judging.settings.files import read_judge

TONE = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it warm?",
        "method": {"type": "judge"},
        "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
    }
)
REPLY = {"case_id": "c1", "model": "m", "criterion_id": "tone", "level": "good", "evidence": ["Thank you"]}
NO_LEVEL = {name: REPLY[name] for name in ("case_id", "model", "criterion_id")}
QUESTION = Question("f" * 32, TONE, Case("Why?", "Thank you for asking."), "e" * 32, case_id="c1", model="m")


def write(folder: Path, *replies: dict[str, Any]) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


def replay(folder: Path, *replies: dict[str, Any]) -> Answer:
    answers: list[Answer] = []
    settings = read_judge(f"replay:{write(folder, *replies)}", {})
    with ReplaySession(settings, folder / "journal", "run") as session:
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


@pytest.mark.parametrize("status", [name for name in get_args(UselessStatus) if name != "endpoint_error"])
def test_a_useless_reply_is_told_as_it_was(tmp_path: Path, status: str):
    useless = REPLY | {"level": None, "status": status, "reply": "Well.", "rationale": "No."}
    answer = replay(tmp_path, useless)
    told = (answer.status, answer.reason, answer.level_id, answer.evidence, answer.rationale)
    assert told == ("unscored", status, None, '["Thank you"]', "No.")


def test_a_call_without_a_reply_is_told_and_is_no_judgment(tmp_path: Path):
    answer = replay(tmp_path, NO_LEVEL | {"status": "endpoint_error", "reply": "HTTP 500"})
    assert (answer.reason, answer.judgment_id) == ("endpoint_error: HTTP 500", None)
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_recorded_distribution_comes_back(tmp_path: Path):
    answer = replay(tmp_path, REPLY | {"distribution": {"bad": 0.25, "good": 0.75}})
    assert answer.distribution == '{"bad":0.25,"good":0.75}'


def test_a_distribution_that_misses_1_by_rounding_is_divided_by_its_sum(tmp_path: Path):
    answer = replay(tmp_path, REPLY | {"distribution": {"bad": 0.25, "good": 0.7499}})
    shares = json.loads(answer.distribution)
    assert (shares["good"], sum(shares.values())) == (pytest.approx(0.7499 / 0.9999), pytest.approx(1, abs=1e-12))


def test_another_replicate_is_another_reply(tmp_path: Path):
    assert replay(tmp_path, REPLY | {"replicate": 1}).reason == "not_recorded"
    assert replay(tmp_path, REPLY, REPLY | {"replicate": 1, "level": "bad"}).level_id == "good"


def test_the_reply_to_the_very_text_goes_before_one_to_any(tmp_path: Path):
    assert replay(tmp_path, REPLY, REPLY | {"output_id": "f" * 32, "level": "bad"}).level_id == "bad"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"status": "parse_error"}, "found level and status, expected one"),
        ({"level": None}, "found none, expected one of level, score and status"),
        ({"level": None, "status": "scored"}, "status: "),
        ({"reply": "{}"}, "found a reply beside a level"),
        ({"distribution": {"good": 0.5}}, "adds up to 0.5, expected 1"),
        ({"distribution": {"good": 2}}, "distribution.good: "),
        ({"replicate": -1}, "replicate: "),
    ],
    ids=["both", "neither", "scored", "reply", "half", "two", "minus"],
)
def test_a_reply_says_a_level_or_why_not(tmp_path: Path, change: dict[str, Any], found: str):
    with pytest.raises(JudgeSettingsError, match=rf"(?s):1: .*{re.escape(found)}"):
        read_replies(write(tmp_path, REPLY | change))


def test_a_level_of_a_distribution_has_to_be_the_criterions(tmp_path: Path):
    path = write(tmp_path, REPLY | {"distribution": {"great": 1.0}})
    with pytest.raises(JudgeSettingsError, match=r":1: level: found 'great'"):
        check_replies(path, [TONE])


def test_the_shipped_recording_reads_as_before():
    shipped = read_replies(Path(__file__).parents[5] / "examples/support_replies/replies.jsonl")
    assert {reply.status for _, reply in shipped.values()} == {None}


def test_every_bad_line_is_told_at_once(tmp_path: Path):
    with pytest.raises(JudgeSettingsError, match=r"(?s):1: .*:2: "):
        read_replies(write(tmp_path, {}, {}))


def test_a_score_becomes_the_nearest_level_with_a_distribution_of_that_mean(tmp_path: Path):
    answer = replay(tmp_path, NO_LEVEL | {"score": 0.62})
    assert (answer.status, answer.level_id) == ("scored", "good")
    assert json.loads(answer.distribution or "") == pytest.approx({"bad": 0.38, "good": 0.62})
    for wrong in ({"score": 1.2}, {"score": 0.5, "level": "good"}):
        with pytest.raises(JudgeSettingsError, match="score"):
            read_replies(write(tmp_path, NO_LEVEL | wrong))

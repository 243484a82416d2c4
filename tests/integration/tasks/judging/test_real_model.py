"""Gemma 3 270M behind llama.cpp's server: it judges badly, and does all else as any server of one's own does."""

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import TONE, ask_each, journaled, make_question
from tests.support.real_servers import SERVER, WEIGHTS, RealServer, served_llama, skip_without
from tests.support.samples import query, write_outputs, write_rubric

pytestmark = pytest.mark.model
skip_without(SERVER, WEIGHTS)
HELPFUL = TONE.model_copy(update={"id": "helpful", "description": "Does the reply help?"})


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with served_llama(tmp_path_factory.mktemp("llama") / "log") as server:
        yield server


def questions(count: int, output: str = "Thank you for asking. Hold the button for ten seconds.") -> list[Question]:
    """Two criteria of each case."""
    firsts = [make_question(number, output) for number in range((count + 1) // 2)]
    return ask_each(firsts, (TONE, HELPFUL))[:count]


def ask(server: RealServer, folder: Path, asked: list[Question], **changes: Any) -> list[Answer]:
    written = {"model": "gemma", "base_url": server.base_url, "max_tokens": 96, "timeout_s": 300, "mode": "logprobs"}
    settings = JudgeSettings.model_validate(written | changes)
    answers: list[Answer] = []
    with open_session(settings, journal_folder=folder, run_id="run") as session:
        session.ask([replace(question, style=settings.style) for question in asked], answers.append)
    return answers


def slots(server: RealServer) -> list[dict[str, Any]]:
    with urllib.request.urlopen(server.base_url.removesuffix("/v1") + "/slots", timeout=30) as response:
        return list(json.load(response))


def test_the_grammar_holds_each_reply_to_the_schema(llama: RealServer, tmp_path: Path):
    ask(llama, tmp_path, questions(3), mode="reply", max_tokens=64)
    rows = journaled(tmp_path).to_pylist()
    # A model of this size may write on until its tokens end, or quote what was never written; JSON it always writes.
    assert {row["status"] for row in rows} <= {"scored", "truncated", "evidence_unverified"}
    assert all(
        json.loads(row["reply"]).keys() == {"evidence", "rationale", "level"}
        for row in rows
        if row["status"] != "truncated"
    )


def test_log_probabilities_become_a_distribution_and_the_prefix_comes_from_the_cache(llama: RealServer, tmp_path: Path):
    ask(llama, tmp_path, questions(6), max_in_flight=1)
    rows = journaled(tmp_path).to_pylist()
    shares = [json.loads(row["distribution"]) for row in rows if row["distribution"]]
    assert shares and all(sum(share.values()) == pytest.approx(1) for share in shares)
    assert sum(row["cached_tokens"] for row in rows) > 0.3 * sum(row["prompt_tokens"] for row in rows)
    assert all(row["prompt_tokens"] and row["completion_tokens"] for row in rows)


def test_sixteen_requests_at_two_slots_are_all_answered(llama: RealServer, tmp_path: Path):
    answers = ask(llama, tmp_path, questions(16), max_in_flight=16)
    assert len(answers) == 16
    assert not [answer.reason for answer in answers if (answer.reason or "").startswith("endpoint_error")]


def test_a_request_that_is_given_up_frees_its_slot(llama: RealServer, tmp_path: Path):
    long = questions(2, "Once upon a time. " * 60)  # three failures in a row would be an endpoint that is gone
    answers = ask(llama, tmp_path, long, timeout_s=0.3, max_attempts=1, patience_s=60, mode="reply", max_tokens=900)
    assert {answer.reason for answer in answers} == {"endpoint_error: no reply within 0.3 s"}
    ends = time.monotonic() + 300  # the server hears of it between two batches, which take long on a busy machine
    while (is_busy := any(slot["is_processing"] for slot in slots(llama))) and time.monotonic() < ends:
        time.sleep(0.2)
    assert not is_busy


def test_a_prompt_longer_than_the_context_costs_its_own_verdict_alone(llama: RealServer, tmp_path: Path):
    too_long = [make_question(number, "word " * 5_000) for number in range(100, 106)]
    answers = ask(llama, tmp_path, [*too_long, *questions(2)], max_in_flight=1)
    reasons = [
        answer.reason or "" for answer in answers if answer.question.output_id in {q.output_id for q in too_long}
    ]
    assert len(reasons) == 6
    assert all("exceeds the available context size" in reason for reason in reasons)
    assert sum(answer.request_count or 0 for answer in answers) >= 2


def test_a_whole_run_is_published(evaluate, gradebook, llama: RealServer, tmp_path: Path):
    write_outputs(tmp_path / "outputs.jsonl", count=3)
    write_rubric(tmp_path / "rubric.yaml")
    judge = f"model: gemma\nbase_url: {llama.base_url}\nmode: logprobs\nmax_tokens: 96\ntimeout_s: 300\n"
    (tmp_path / "judge.yaml").write_text(judge + "prices: {input_usd: 0, output_usd: 0}\n")
    outputs, rubric, judge_file = (str(tmp_path / name) for name in ("outputs.jsonl", "rubric.yaml", "judge.yaml"))
    finished = evaluate(outputs, "--rubric", rubric, "--judge", judge_file, "--run-id", "r")
    assert finished.code in (0, 1), finished.err
    rows = query(gradebook, "select status from verdicts where method = 'judge'")
    assert len(rows) == 6 and "scored" in {row["status"] for row in rows}

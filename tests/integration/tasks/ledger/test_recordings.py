"""Recordings: what a run was told, told again by the file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.tasks.judging.replies.recorded_judge import read_replies
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ledger.recordings import refuse_record
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.review import review_artifact
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_rubric

OWN = [{"id": "own", "description": "Is it right?", "method": {"type": "judge"}}]
ROW = {"case_id": "c1", "model": "m", "output": "Canberra is the capital.", "criteria": OWN}
TOLD = "criterion_id, status, level_id, score, reason, evidence, rationale"
USELESS = ["liar", "liar", "400"]  # the first question is asked twice


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackJudge]:
    monkeypatch.chdir(tmp_path)
    write_rubric(tmp_path / "rubric.yaml")
    with LoopbackJudge() as server:
        settings = {"model": "gpt-4o-mini", "base_url": server.base_url, "max_in_flight": 1, "max_attempts": 1}
        (tmp_path / "judge.yaml").write_text(json.dumps(settings), encoding="utf-8")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
        yield server


def verdicts(lake: str, judge: str = "judge.yaml", **words: Any) -> list[tuple[Any, ...]]:
    """Review an artifact, and what the judge is held to have said of it."""
    request = EvaluationRequest("row.json", "rubric.yaml", judge, lake=f"sqlite:{lake}/catalog.sqlite", **words)
    run_id = review_artifact("row.json", json.dumps(ROW).encode(), ("rubric.yaml",), request).evaluations[0].run_id
    with connect(find_lake(request.lake), read_only=True) as connection:
        query = f"select {TOLD} from verdicts where run_id = ? and method = 'judge' order by all"
        return connection.execute(query, [run_id]).fetchall()


@pytest.mark.parametrize(
    "faults",  # of two questions, one after the other
    [
        pytest.param(USELESS, id="useless"),
        pytest.param(["empty", "empty"], id="empty", marks=pytest.mark.nightly),
        pytest.param([], id="none", marks=pytest.mark.nightly),
        pytest.param(["refusal", "400"], id="refused", marks=pytest.mark.nightly),
        pytest.param(["length", "length", "filter"], id="ended", marks=pytest.mark.nightly),
    ],
)
def test_a_recording_gives_the_very_same_verdicts(judge, faults):
    judge.faults = [*faults]  # it takes them out
    told = verdicts("first", record="kept.jsonl")
    asked_count = judge.request_count
    assert verdicts("second", "replay:kept.jsonl") == told
    assert (judge.request_count, len(told)) == (asked_count, 2)
    assert "unscored" in {row[1] for row in told} or not faults
    assert "canary" not in Path("kept.jsonl").read_text()
    if faults == USELESS:  # the raw text of a useless reply is recorded
        lines = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
        assert sorted(line["status"] for line in lines) == ["endpoint_error", "evidence_unverified"]
        assert "never written" in next(line["reply"] for line in lines if line["status"] == "evidence_unverified")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_recording_of_what_the_ledger_held_is_the_same(judge):
    verdicts("first", record="kept.jsonl")
    asked_count = judge.request_count
    verdicts("first", record="again.jsonl")
    assert Path("again.jsonl").read_bytes() == Path("kept.jsonl").read_bytes()
    assert judge.request_count == asked_count


@pytest.mark.nightly
def test_an_unfinished_run_keeps_what_it_was_told(judge):
    judge.faults = ["", "401"]
    with pytest.raises(UnfinishedError):
        verdicts("first", record="kept.jsonl")
    assert [reply.level is not None for _, reply in read_replies(Path("kept.jsonl")).values()] == [True]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_recording_is_replaced_by_the_next(judge):
    verdicts("first", record="kept.jsonl")
    before = Path("kept.jsonl").read_bytes()
    verdicts("first", record="kept.jsonl")
    assert Path("kept.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", ['{"case_id": "c1", "model": "m", "output": "x"}\n', "notes\n", "\0" * 99, "[1]\n"])
def test_a_file_of_something_else_is_left_alone(judge, content):
    Path("kept.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"--record: expected a recording or a new file; kept\.jsonl:1: "):
        verdicts("first", record="kept.jsonl")
    assert (Path("kept.jsonl").read_text(encoding="utf-8"), judge.request_count) == (content, 0)
    assert not Path("first").exists()


@pytest.mark.parametrize("place", ["", "kept", "file/kept.jsonl", "k" * 300])
def test_a_place_that_can_hold_no_file_is_refused(judge, place):
    Path("kept").mkdir()
    Path("file").touch()
    with pytest.raises(InputError, match="--record: "):
        verdicts("first", record=place)


@pytest.mark.nightly
def test_the_file_that_is_replayed_is_not_written(judge):
    verdicts("first", record="kept.jsonl")
    with pytest.raises(InputError, match="which --judge reads"):
        verdicts("first", "replay:kept.jsonl", record="./kept.jsonl")


def test_a_run_without_a_judge_has_nothing_to_record(tmp_path):
    with pytest.raises(InputError, match="found no --judge"):
        refuse_record(tmp_path / "kept.jsonl", None)

"""A process killed at any point: the same command again loses and repeats nothing."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.samples import write_outputs, write_rubric

CASES, IN_FLIGHT = 60, 8


@pytest.fixture
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge(latency_s=0.1) as server:
        yield server


@pytest.fixture
def command(tmp_path: Path, judge: LoopbackJudge) -> list[str]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES, models=("one",))
    write_rubric(tmp_path / "rubric.yaml")
    settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: {IN_FLIGHT}\n"
    (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")
    return ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml", "--json"]


def start(command: list[str], folder: Path) -> Forked:
    return Forked(command, folder, OPENAI_API_KEY="none")


def kill_when(process: Forked, is_time: Callable[[], bool]) -> None:
    while process.is_running and not is_time():
        time.sleep(0.005)
    process.kill()


def ledger(gradebook) -> tuple[int, int, int]:
    finished = gradebook("sql", "select count(*), count(distinct request_key) from judgments", "--format", "csv")
    published = gradebook("sql", "select count(*) from runs where status = 'published'", "--format", "csv")
    rows, keys = finished.out.splitlines()[1].split(",")
    return int(rows), int(keys), int(published.out.splitlines()[1])


@pytest.mark.slow
@pytest.mark.parametrize("asked_before", [30, *nightly([0, 5, 59])])
def test_after_a_kill_while_judging_nothing_is_lost_or_paid_twice(command, judge, gradebook, tmp_path, asked_before):
    first = start(command, tmp_path)
    kill_when(
        first, lambda: (tmp_path / "lake/runs").exists() if not asked_before else judge.request_count >= asked_before
    )
    code, out, err = start(command, tmp_path).wait()
    assert code == 0, err
    assert ledger(gradebook) == (CASES, CASES, 1)
    assert judge.request_count <= CASES + IN_FLIGHT
    assert json.loads(out)["output_count"] == CASES


@pytest.mark.slow
def test_after_a_kill_while_publishing_one_version_is_published(command, judge, gradebook, tmp_path):
    first = start(command, tmp_path)
    kill_when(first, lambda: any(tmp_path.glob("lake/runs/*/marts/run_scores.parquet")))
    was_concluded = any(tmp_path.glob("lake/runs/*/published.json"))
    code, _, err = start(command, tmp_path).wait()
    assert code == 0, err
    assert judge.request_count == CASES
    rows, keys, published_count = ledger(gradebook)
    assert (rows, keys) == (CASES, CASES)
    # If the kill came after the end, the command started a second run, and sent no request.
    assert published_count == (2 if was_concluded else 1)


@pytest.mark.slow
def test_two_evaluations_at_once_into_one_lake_are_both_published(command, judge, gradebook, tmp_path):
    write_outputs(tmp_path / "others.jsonl", count=CASES, models=("two",))
    both = [start(command, tmp_path), start([command[0], "others.jsonl", *command[2:]], tmp_path)]
    ends = [process.wait() for process in both]
    assert [code for code, _, _ in ends] == [0, 0], [err for _, _, err in ends]
    assert ledger(gradebook) == (2 * CASES, 2 * CASES, 2)

"""Faults around a run: the lake stays consistent and readable, and the same command finishes the run."""

import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.samples import query, write_outputs

pytestmark = [pytest.mark.slow]
CASES, IN_FLIGHT = 24, 4
FULL = [
    ("data/main/verdicts/run_id=hit", "4k"),  # publication
    *nightly([("runs/hit", "4k"), ("journal", "16k")]),  # ingest, judging
]


@pytest.fixture
def command(tmp_path: Path, judge: LoopbackJudge, judged_run) -> list[str]:
    """Start an evaluation into a lake that already has a published run."""
    judge.latency_s = 0.05
    judge.counts.clear()  # of the earlier run
    write_outputs(tmp_path / "more.jsonl", count=CASES, models=("other",))
    settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: {IN_FLIGHT}\n"
    (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")
    return ["evaluate", "more.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml", "--run-id", "hit", "--json"]


@pytest.fixture
def start(tmp_path: Path, command: list[str]) -> Callable[[], Forked]:
    return lambda: Forked(command, tmp_path, OPENAI_API_KEY="none")


@pytest.fixture
def assert_whole(gradebook, judged_run):
    """Check the lake's consistency, and that the earlier published run is unchanged."""

    def check(*words: str) -> None:
        finished = gradebook("doctor", *words)
        assert finished.code == 0, finished.out
        earlier = f"select count(*) n from verdicts where run_id = '{judged_run['run_id']}'"
        assert query(gradebook, earlier) == query(gradebook, earlier, "--at", judged_run["run_id"]) == [{"n": 24}]

    return check


@pytest.fixture
def assert_finishes(start, gradebook, judge, assert_whole):
    """Run the command again: it publishes once, and only requests in flight at the fault are paid twice."""

    def check() -> None:
        code, out, err = start().wait(60)
        assert code == 0, err
        assert json.loads(out)["output_count"] == CASES
        kept = (
            "select count(*) n, count(distinct request_key) k, "
            "(select count(*) from runs where run_id = 'hit' and status = 'published') r from judgments "
            "where run_id = 'hit'"
        )
        assert query(gradebook, kept) == [{"n": CASES, "k": CASES, "r": 1}]
        assert judge.request_count <= CASES + IN_FLIGHT
        assert_whole("--deep")

    return check


def wait_until(process: Forked, is_time: Callable[[], bool]) -> None:
    while process.is_running and not is_time():
        time.sleep(0.002)


@contextmanager
def mounted(folder: Path, *options: str | Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", *options, folder], capture_output=True, check=False).returncode:
        pytest.skip("found no right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


# -------- SIGKILL; tests/integration/flows/test_killed.py kills while judging and publishing
@pytest.mark.parametrize(
    ("stage", "trace"),
    nightly(
        [
            ("ingest", "run.json"),
            ("plan", "ingest.json"),
            ("score", "verdicts/*/*"),
            ("aggregate", "collected/*"),
            ("report", "report.html"),
        ]
    ),
)
def test_a_run_killed_in_any_stage_is_finished_by_the_same_command(
    start, assert_whole, assert_finishes, tmp_path, stage, trace
):
    process = start()
    wait_until(process, lambda: any((tmp_path / "lake/runs/hit").glob(trace)))
    process.kill()
    assert_finishes()


# -------- a full disk
@pytest.mark.parametrize(("place", "size"), FULL)
def test_a_full_disk_exits_with_3_and_the_rerun_finishes(start, gradebook, assert_finishes, tmp_path, place, size):
    folder = tmp_path / "lake" / place
    with mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        code, _, err = start().wait(60)
        assert (code, "unexpected" in err) == (3, False), err
        assert "full" in err or "No space left" in err
        kept = [(path.name, path.read_bytes()) for path in folder.glob("*.jsonl")]
    for name, content in kept:  # files on the full disk are still there when there is space again
        (folder / name).write_bytes(content)
    assert_finishes()


# -------- a lake that can't be written
def test_a_read_only_lake_is_named_and_no_request_is_sent(start, judge, assert_whole, tmp_path):
    lake = tmp_path / "lake"
    with mounted(lake, "--bind", lake):
        subprocess.run(["mount", "-o", "remount,bind,ro", lake], check=True)
        code, _, err = start().wait(60)
        assert (code, judge.request_count) == (2, 0), err
        assert "can't be written" in err
        assert_whole()
    assert not (lake / "runs/hit").exists()


@pytest.mark.nightly
def test_a_run_waits_for_a_locked_catalog(start, tmp_path, assert_finishes):
    catalog = sqlite3.connect(tmp_path / "lake/catalog.sqlite", check_same_thread=False)
    catalog.execute("begin exclusive")
    release = threading.Timer(8, catalog.rollback)
    release.start()
    assert_finishes()
    release.join()
    catalog.close()


# -------- two at once
@pytest.mark.nightly
def test_of_two_processes_with_one_run_id_one_refuses(start, assert_whole, gradebook):
    both = [start(), start()]
    ends = [process.wait() for process in both]
    assert sorted(str(code) for code, _, _ in ends) in (["0", "2"], ["0", "0"]), ends
    assert all("another process is evaluating now" in err for code, _, err in ends if code == 2)
    assert query(gradebook, "select count(*) n from judgments where run_id = 'hit'") == [{"n": CASES}]
    assert_whole("--deep")

"""Checks and schemas in processes: the verdicts of a thread, whatever becomes of a process."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.scoring import process_pool as check_processes
from gradebook.tasks.scoring.computed import Computation, compute_verdicts
from gradebook.tasks.scoring.process_pool import CheckPool, is_worth_processes, opened_checks
from gradebook.tasks.scoring.process_worker import LastShard
from gradebook.tasks.scoring.setup import ScoringSetup
from gradebook.tasks.scoring.shards import score_shard
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, read_timings

TEXTS = ["one", "", "{}", '{"a": 1} and so on', "sorry. It is so. \u0e44\u0e17\u0e22 \U0001f600", "ada@example.org\r\n"]
COUNT = 600
METHODS: dict[str, dict[str, Any]] = {
    "length": {"type": "check", "check": "length_words", "settings": {"max": 2}},
    "sentences": {"type": "check", "check": "count_sentences", "settings": {"max": 2}, "mode": "loose"},
    "json": {"type": "check", "check": "json_valid"},
    "reference": {"type": "check", "check": "matches_reference"},
    "schema": {"type": "schema", "schema": {"$ref": "shape"}},
    "sound": {"type": "check", "check": "audio_format", "settings": {"formats": ["WAV"]}},
}


@pytest.fixture(scope="module")
def pool() -> Iterator[CheckPool]:
    with CheckPool() as opened:
        yield opened


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [TEXTS[place % len(TEXTS)] for place in range(COUNT)]
    references = pa.array([None if place % 4 else text for place, text in enumerate(texts)], pa.string())
    path = tmp_path_factory.mktemp("shards") / "shard.parquet"
    columns = {"output": texts, "reference": references, "metadata": pa.nulls(COUNT, pa.string())}
    pq.write_table(pa.table({"output_id": [f"o{place}" for place in range(COUNT)], **columns}), path)
    return str(path)


def criterion(name: str) -> Criterion:
    return Criterion.model_validate({"id": name, "description": "Is it so?", "method": METHODS[name]})


def computation(name: str, shard: str, folder: Path) -> Computation:
    schemas = {"shape": {"type": "object"}}
    return Computation("run", criterion(name), shard, folder / f"{name}.parquet", (folder,), schemas)


def process_ids(pool: CheckPool, work: Computation) -> set[int]:
    """The pool's processes, after one of them worked."""
    assert pool.compute(work, Timing("score")) == COUNT
    return {process.pid for process in pool.processes.members()}


@pytest.mark.parametrize("name", METHODS)
def test_a_process_writes_the_bytes_that_a_thread_does(pool, shard, tmp_path, name):
    work = computation(name, shard, tmp_path)
    assert pool.compute(work, Timing("score")) == COUNT
    written = work.target.read_bytes()
    work.target.unlink()
    assert compute_verdicts(work) == COUNT
    assert work.target.read_bytes() == written


def test_a_process_reads_a_column_of_a_shard_once(shard, tmp_path):
    last, copy = LastShard(), tmp_path / "copy.parquet"
    copy.write_bytes(Path(shard).read_bytes())
    both = last.read(str(copy), ["output_id", "output"])
    all_three = last.read(str(copy), ["output_id", "reference", "output"])
    copy.unlink()
    assert last.read(str(copy), ["output_id", "output"]).equals(both)
    assert all_three.equals(pq.read_table(shard, columns=["output_id", "reference", "output"]))


def test_a_process_reads_each_shard(shard, tmp_path):
    last, other = LastShard(), pa.table({"output_id": ["x"]})
    pq.write_table(other, tmp_path / "other.parquet")
    last.read(shard, ["output_id"])
    assert last.read(str(tmp_path / "other.parquet"), ["output_id"]).equals(other)


def test_the_processor_time_of_a_process_is_counted(pool, shard, tmp_path):
    timing = Timing("score")
    pool.compute(computation("schema", shard, tmp_path), timing)
    assert timing.cpu_s > 0


def test_what_a_process_can_not_do_is_left_to_the_caller_and_the_process_goes_on(pool, shard, tmp_path):
    before = process_ids(pool, computation("length", shard, tmp_path))
    assert pool.compute(replace(computation("length", shard, tmp_path), shard="nowhere"), Timing("score")) is None
    assert process_ids(pool, computation("json", shard, tmp_path)) == before


def test_a_killed_process_leaves_its_shard_to_the_caller_and_another_takes_its_place(pool, shard, tmp_path):
    work = computation("length", shard, tmp_path)
    (killed,) = process_ids(pool, work)
    os.kill(killed, signal.SIGKILL)
    while pool.compute(work, Timing("score")) is None:  # it may not be gone yet, and is lost in the call then
        assert pool.lost_count == 1
    assert killed not in process_ids(pool, work)


def test_a_pool_that_loses_its_processes_gives_up(shard, tmp_path, monkeypatch):
    monkeypatch.setattr(check_processes, "WORKER", "gradebook.tasks.scoring.nowhere")
    with CheckPool() as pool:
        pool.lost_count = check_processes.MOST_LOST - 1
        assert pool.compute(computation("length", shard, tmp_path), Timing("score")) is None
        assert pool.compute(computation("length", shard, tmp_path), Timing("score")) is None
        assert (pool.lost_count, pool.processes.members()) == (check_processes.MOST_LOST, ())


def test_a_closed_pool_raises(shard, tmp_path):
    with CheckPool() as pool:
        pass
    with pytest.raises(RuntimeError):
        pool.compute(computation("length", shard, tmp_path), Timing("score"))


def scored(folder: Path, shard: str, checks: CheckPool | None) -> Path:
    setup = ScoringSetup(RunFolder(folder), {}, checks=checks)
    return score_shard(setup, criterion("length"), shard, 0)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckPool]:
    """A pool whose processes end before they answer."""
    monkeypatch.setattr(check_processes, "WORKER", "gradebook.tasks.scoring.nowhere")
    with CheckPool() as pool:
        yield pool


def test_a_shard_whose_process_was_lost_is_scored(failing, shard, tmp_path, capfd):
    (tmp_path / "run").mkdir()
    assert pq.read_metadata(scored(tmp_path / "run", shard, failing)).num_rows == COUNT
    assert failing.lost_count == 1
    assert "gradebook.tasks.scoring.nowhere" in capfd.readouterr().err


def test_a_criterion_in_a_process_has_one_timing(pool, shard, tmp_path):
    scored(tmp_path, shard, pool)
    timings = read_timings(RunFolder(tmp_path)).to_pylist()
    assert [(row["stage"], row["criterion_id"], row["row_count"]) for row in timings] == [("score", "length", COUNT)]
    assert timings[0]["cpu_s"] > 0


def test_what_goes_wrong_in_a_process_is_raised_as_in_a_thread(pool, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        scored(tmp_path, str(tmp_path / "gone.parquet"), pool)


def test_little_work_starts_no_process(shard, tmp_path, monkeypatch):
    monkeypatch.setattr(check_processes, "core_count", lambda: 2)
    with opened_checks([computation(name, shard, tmp_path) for name in METHODS]) as checks:
        assert checks is None


def test_much_work_is_worth_processes_and_one_core_is_not(shard, tmp_path, monkeypatch):
    monkeypatch.setattr(check_processes, "LEAST_WORK_S", 0.0)
    works = [computation(name, shard, tmp_path) for name in ("length", "json")]
    opened = []
    for core_count in (1, 2):
        monkeypatch.setattr(check_processes, "core_count", lambda count=core_count: count)
        with opened_checks(works) as checks:
            opened.append(checks is not None)
    assert opened == [False, True]


def test_a_shard_too_small_for_a_sample_is_never_worth_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(check_processes, "LEAST_WORK_S", 1e-9)
    pq.write_table(pa.table({"output_id": ["a"] * 199, "output": ["x"] * 199}), tmp_path / "small.parquet")
    assert not is_worth_processes([computation("length", str(tmp_path / "small.parquet"), tmp_path)])


PARENT = """
    import pickle
    from gradebook.tasks.scoring.process_pool import CheckPool
    from gradebook.tasks.workspace.timings import Timing
    pool = CheckPool()
    pool.compute(pickle.load(open("work", "rb")), Timing("score"))
    (process,) = pool.processes.members()
    print(process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.nightly
def test_a_process_ends_with_the_process_that_started_it(shard, tmp_path):
    import pickle

    (tmp_path / "work").write_bytes(pickle.dumps(computation("length", shard, tmp_path)))
    code = f"import sys; sys.path = {sys.path!r}\n{textwrap.dedent(PARENT)}"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=-1, stdout=-1, cwd=tmp_path, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert is_gone(pid)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, within two seconds."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False

"""What a worker of a cluster does with a shard, and what it says where it can't."""

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.methods.method import ScoringSetup, ShardCache
from gradebook.tasks.runs import runner as runners
from gradebook.tasks.runs.run import code_version
from gradebook.tasks.runs.runner import Runner, read_runner
from gradebook.tasks.scoring.shards import ShardWork, compute_verdicts, compute_work, record_work, shard_work
from gradebook.tasks.system.files import temporary_path
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, read_timings

RUBRIC = Rubric.model_validate(
    {
        "id": "both",
        "version": "1.0.0",
        "criteria": [
            {"id": name, "description": "Is it so?", "weight": 1, "method": {"type": "check", "check": check}}
            for name, check in (("json", "json_valid"), ("whole", "is_complete"))
        ],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


@pytest.fixture
def work(folder: RunFolder) -> ShardWork:
    pq.write_table(pa.table({"output_id": ["a", "b"], "output": ["{}", "no"]}), folder.path / "shard.parquet")
    return shard_work(ScoringSetup(folder, {}), RUBRIC, str(folder.path / "shard.parquet"), 0)


def test_a_worker_writes_the_bytes_that_a_thread_does(work, folder):
    timings = compute_work(pickle.loads(pickle.dumps(work)))
    for computation in work.computations:
        written = computation.target.read_bytes()
        compute_verdicts(computation, ShardCache())
        assert computation.target.read_bytes() == written
    assert [(timing.criterion_id, timing.row_count) for timing in timings] == [("json", 2), ("whole", 2)]


def test_what_has_a_verdict_file_is_not_sent_again(work, folder):
    compute_verdicts(work.computations[0], ShardCache())
    left = shard_work(ScoringSetup(folder, {}), RUBRIC, work.computations[0].shard, 0)
    assert (work.criterion_ids, left.criterion_ids) == ({"json", "whole"}, {"whole"})


def test_the_times_of_a_worker_are_the_run_s(work, folder):
    record_work(folder, 0, compute_work(work))
    rows = read_timings(folder).to_pylist()
    assert [(row["stage"], row["criterion_id"], row["row_count"]) for row in rows] == [
        ("score", "json", 2),
        ("score", "whole", 2),
    ]


def test_a_worker_that_does_not_see_the_shard_says_what_it_expected(work, folder):
    (folder.path / "shard.parquet").unlink()
    with pytest.raises(
        UnfinishedError, match=r"worker .*shard\.parquet.*expected the run's folder under the same path"
    ):
        compute_work(work)


def test_a_worker_with_another_gradebook_writes_nothing(work, folder):
    with pytest.raises(UnfinishedError, match=rf"found gradebook {code_version()}, expected 0\.0\.0"):
        compute_work(ShardWork(work.computations, "0.0.0"))
    assert not (folder.path / "verdicts").exists()


def test_a_file_that_only_the_worker_sees_is_named(folder):
    with pytest.raises(UnfinishedError, match=r"verdicts/json/shard-00000\.parquet: found no such file"):
        record_work(folder, 0, (Timing("score", "json"),))


def test_processes_of_one_number_write_under_other_names(tmp_path, monkeypatch):
    import gradebook.tasks.system.files

    mine = temporary_path(tmp_path / "x")
    gradebook.tasks.system.files._mark_of.cache_clear()  # as in another process of that number
    assert temporary_path(tmp_path / "x") != mine


def test_a_runner_is_read_with_its_address(monkeypatch):
    monkeypatch.delenv(runners.SETTING, raising=False)
    assert read_runner(None) == Runner("threads")
    assert read_runner("dask:tcp://head:8786") == Runner("dask", "tcp://head:8786")
    monkeypatch.setenv(runners.SETTING, "dask")
    assert (read_runner(None).kind, read_runner("threads").kind) == ("dask", "threads")


def test_a_runner_whose_package_is_missing_names_the_extra(monkeypatch):
    monkeypatch.setitem(runners.CLUSTERS, "ray", "prefect_ray_that_nobody_has")
    with pytest.raises(InputError, match=r"pip install '\.\[ray\]'"):
        read_runner("ray:auto")

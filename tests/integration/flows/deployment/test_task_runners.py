"""Checks computed by a cluster's workers: the same rows as in one process, even if a worker dies."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.flows.deployment import prefect_stages
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.runner import Runner
from tests.support.dask_cluster import DaskCluster
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import query, write_lines, write_outputs

MARTS = ("output_scores", "criterion_scores", "category_scores", "run_scores", "score_distribution")
DIFFERENT = """
with a as (select {columns} from {table} where run_id = 'threads'), b as (select {columns} from {table}
where run_id = 'dask') select count(*) as rows from ((from a except all from b) union all (from b except all from a))
"""
CHECKS = """
id: checked
version: 1.0.0
criteria:
  - {id: length, description: At most 7 words., weight: 1,
     method: {type: check, check: length_words, settings: {max: 7}}}
  - {id: digits, description: Names no case with a 3., weight: 0.3,
     method: {type: check, check: matches_regex, settings: {pattern: '^[^3]*$'}}}
  - {id: json, description: Is no JSON., weight: 0.1, method: {type: schema, schema: {type: object}}}
"""
SLOW = """
  - {id: numbers, description: Holds whole numbers only., weight: 0.7,
     method: {type: schema, schema: {type: array, items: {type: integer, minimum: 0}}}}
"""
JUDGED = """
  - {id: clarity, description: Is it clear?, weight: 1, method: {type: judge},
     levels: [{id: bad, score: 0, description: It is not.}, {id: good, score: 1, description: It is.}]}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    (tmp_path / "dask").mkdir()
    with DaskCluster(tmp_path / "dask") as opened:
        yield opened


def output(case: int, prompt: str, text: str | None = None) -> dict[str, str]:
    """Row of a dataset: one case's output by one of two models."""
    told = text or f"Answer {case}, in a few words."
    return {"case_id": f"c{case}", "model": ("small", "large")[case % 2], "prompt": prompt, "output": told}


def evaluation(folder: Path, run_id: str, *more: str, **environment: str) -> Forked:
    words = ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--run-id", run_id, *more]
    return Forked(words, folder, **environment)


def write_numbers(folder: Path, count: int = 40) -> int:
    """Write outputs of which the schema of `SLOW` takes seconds; returns their count."""
    numbers = [output(case, "Count.", json.dumps([*range(case, case + 2_000)])) for case in range(count)]
    write_lines(folder / "outputs.jsonl", numbers)
    return count


def differing_rows(folder: Path) -> dict[str, int]:
    """Number of rows of each table that only one of the runs `threads` and `dask` has, bit for bit."""
    tables = dict.fromkeys(MARTS, "* exclude (run_id)")
    tables["run_scores"] = "* exclude (run_id, cost_usd)"  # the second run sends no request
    tables["verdicts"] = "* exclude (run_id, is_replayed)"
    tables["stage_costs"] = "stage, criterion_id, case when stage = 'score' then row_count end"
    with connect(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), read_only=True) as connection:
        counts = {
            table: connection.execute(DIFFERENT.format(table=table, columns=columns)).fetchall()
            for table, columns in tables.items()
        }
    return {table: rows[0][0] for table, rows in counts.items()}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_two_workers_of_dask_publish_the_rows_that_threads_do(cluster, gradebook, tmp_path):
    workers = [cluster.add_worker() for _ in range(2)]
    # 80 MB of prompts, so two shards of up to 64 MB
    write_lines(tmp_path / "outputs.jsonl", [output(case, "Question? " * 4_000) for case in range(2_000)])
    (tmp_path / "rubric.yaml").write_text(CHECKS, encoding="utf-8")
    for run_id, runner in (("threads", "threads"), ("dask", cluster.runner)):
        code, _, err = evaluation(tmp_path, run_id, "--runner", runner).wait()
        assert code == 0, err
        assert "distributed" not in err
    assert differing_rows(tmp_path) == dict.fromkeys([*MARTS, "verdicts", "stage_costs"], 0)
    shards = query(
        gradebook, "select distinct subject from quality_results where stage = 'ingest' and engine = 'sql' order by all"
    )
    assert len(shards) == 2, shards
    cpu = query(gradebook, "select min(cpu_s) as s from stage_costs where run_id = 'dask' and stage = 'score'")
    assert cpu[0]["s"] > 0
    assert [worker.poll() for worker in workers] == [None, None]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_a_killed_worker_costs_no_verdict_and_no_request(cluster, tmp_path):
    count = write_numbers(tmp_path)
    (tmp_path / "rubric.yaml").write_text(CHECKS + SLOW + JUDGED, encoding="utf-8")
    first = cluster.add_worker()
    with LoopbackJudge() as judge:
        settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\n"
        (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")
        run = evaluation(tmp_path, "dask", "--judge", "judge.yaml", "--runner", cluster.runner)
        verdicts = tmp_path / "lake/runs/dask/verdicts"
        while run.is_running and not any(verdicts.glob("json/*.parquet")):  # `numbers` remains, and takes seconds
            time.sleep(0.005)
        first.kill()
        was_in_the_middle = not any(verdicts.glob("numbers/*.parquet"))
        cluster.add_worker()
        code, _, err = run.wait()
        assert (code, was_in_the_middle) == (0, True), err
        assert evaluation(tmp_path, "threads", "--judge", "judge.yaml").wait()[0] == 0
        assert judge.request_count == count
    assert not any(differing_rows(tmp_path).values())


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("victim", ["worker", "scheduler that stands still"])
def test_a_cluster_that_does_not_come_back_ends_the_run_and_the_same_command_finishes_it(cluster, tmp_path, victim):
    write_numbers(tmp_path)
    (tmp_path / "rubric.yaml").write_text(CHECKS + SLOW, encoding="utf-8")
    worker = cluster.add_worker()
    patience = {"DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "2s"}
    run = evaluation(tmp_path, "dask", "--runner", cluster.runner, **patience)
    while run.is_running and not any((tmp_path / "lake/runs/dask/verdicts").glob("json/*.parquet")):
        time.sleep(0.005)
    {"worker": worker.kill}.get(victim, cluster.freeze_scheduler)()
    code, _, err = run.wait()
    assert code == 3, err
    assert "the cluster gave up on a shard" in err, err
    for run_id in ("dask", "threads"):
        assert evaluation(tmp_path, run_id).wait()[0] == 0
    different = differing_rows(tmp_path)
    del different["stage_costs"]  # what the lost worker spent is lost with it
    assert not any(different.values())


@pytest.mark.nightly
def test_a_cluster_without_workers_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(prefect_stages, "CONNECT_TIMEOUT_S", 1)
    runner = Runner("dask", cluster.runner.removeprefix("dask:"))
    with pytest.raises(UnfinishedError, match="found no worker within 1 s, expected a cluster"):
        prefect_stages._dask(runner).__enter__()


@pytest.mark.parametrize("words", ["spark", "threads:2", "dask:", "processes", ":"])
def test_an_unknown_runner_is_refused(gradebook, tmp_path, words):
    write_outputs(tmp_path / "outputs.jsonl")
    finished = gradebook("evaluate", "outputs.jsonl", "--rubric", "json_record", "--runner", words)
    assert finished.code == 2
    assert f"--runner: found '{words}', expected threads, dask, dask:ADDRESS" in finished.err
    assert not (tmp_path / "lake").exists()


def test_the_environment_s_runner_is_the_default(gradebook, tmp_path, monkeypatch):
    write_outputs(tmp_path / "outputs.jsonl")
    monkeypatch.setenv("GRADEBOOK_TASK_RUNNER", "spark")
    assert gradebook("evaluate", "outputs.jsonl", "--rubric", "json_record").code == 2


@pytest.mark.server
def test_workers_on_other_machines_need_a_reachable_prefect_server(evaluate, tmp_path):
    write_outputs(tmp_path / "outputs.jsonl")
    (tmp_path / "rubric.yaml").write_text(CHECKS, encoding="utf-8")
    finished = evaluate("outputs.jsonl", "--rubric", "rubric.yaml", "--runner", "dask:tcp://192.0.2.1:8786")
    assert finished.code == 2
    assert "found PREFECT_API_URL http://127.0.0.1:" in finished.err


@pytest.mark.parametrize("words", ["dask:tcp://127.0.0.1:9", "ray:ray://127.0.0.1:9", "ray:127.0.0.1:9", "ray:a:b"])
def test_an_unresponsive_cluster_ends_the_run_with_a_sentence(monkeypatch, words):
    monkeypatch.setattr(prefect_stages, "CONNECT_TIMEOUT_S", 1)
    kind, _, address = words.partition(":")
    opened = {"dask": prefect_stages._dask, "ray": prefect_stages._ray}[kind]
    with (
        pytest.raises(UnfinishedError, match=rf"--runner {words}: found .*, expected a cluster that"),
        opened(Runner(kind, address)),
    ):
        pass

"""Services that fail while a run judges or publishes: the same command ends the work, and nothing is paid twice."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.dask_cluster import DaskCluster
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.postgres import PostgresServer
from tests.support.s3 import BUCKET, Storage
from tests.support.samples import query, write_outputs, write_rubric
from tests.support.store_proxy import FaultyStore

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
CASES, IN_FLIGHT = 60, 8
COUNTS = """
select (select count(*) from runs where status = 'published') as runs, (select count(*) from outputs) as outputs,
    (select count(distinct request_key) from judgments) as keys, (select count(*) from judgments) as judgments,
    (select count(*) from verdicts where status = 'scored') as verdicts, (select count(*) from run_scores) as scores,
    (select count(*) from runs where status <> 'published') as others
"""
DROP = "select pg_terminate_backend(pid) from pg_stat_activity where datname like 'lake_%'"


@dataclass
class Evaluation:
    """The command at work on a lake, and its judge. more: options that name the lake."""

    folder: Path
    judge: LoopbackJudge
    more: tuple[str, ...]
    process: Forked

    @property
    def is_judging(self) -> bool:
        return self.judge.request_count >= CASES // 3

    @property
    def is_publishing(self) -> bool:
        return any(self.folder.rglob("runs/*/marts/run_scores.parquet"))

    def run_until(self, moment: str) -> None:
        while self.process.is_running and not (self.is_judging if moment == "judging" else self.is_publishing):
            time.sleep(0.002)
        assert self.process.is_running, self.process.wait()

    def finish(self) -> int | None:
        """Wait for the end; where the command did not publish, run it again. Returns the first exit code."""
        code, _, err = self.process.wait(300)
        assert code in (0, 3, -9), err
        assert "gradebook: unexpected" not in err, err
        if code != 0:
            again, _, told = Forked(WORDS + self.more, self.folder, **ENVIRONMENT).wait(300)
            assert again == 0, told
        return code


WORDS = ("evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml")
ENVIRONMENT = {"OPENAI_API_KEY": "none"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Evaluation]]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES, models=("one",))
    write_rubric(tmp_path / "rubric.yaml")
    with LoopbackJudge(latency_s=0.1) as judge:
        settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: {IN_FLIGHT}\n"
        (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")

        def begin(*more: str) -> Evaluation:
            return Evaluation(tmp_path, judge, more, Forked(WORDS + more, tmp_path, **ENVIRONMENT))

        yield begin


def assert_whole(gradebook, run: Evaluation, *, was_killed: bool) -> None:
    """One run is published whole, every reply is in the ledger once, and none was paid twice."""
    (found,) = query(gradebook, COUNTS, *run.more)
    run_count = found.pop("runs")
    assert run_count == 1 or (was_killed and run_count == 2)  # killed after it had published, the command begins anew
    assert found == {
        "outputs": CASES,
        "keys": CASES,
        "judgments": CASES,
        "verdicts": 2 * CASES * run_count,
        "scores": run_count,
        "others": 0,
    }
    assert run.judge.request_count <= CASES + was_killed * IN_FLIGHT


# -------- PostgreSQL
def _away(server: PostgresServer, run: Evaluation) -> None:
    server.stop()
    try:
        run.process.wait(5)
    finally:
        server.start()


POSTGRES_FAULTS: dict[str, Callable[[PostgresServer, Evaluation], object]] = {
    "restarted": lambda server, _run: server.restart(),
    "away": _away,
    "dropped": lambda server, _run: server.ask("postgres", DROP),
    "killed": lambda _server, run: run.process.kill(),
    "restarted and killed": lambda server, run: (server.restart(), run.process.kill()),
}


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        *((fault, "publishing") for fault in ("restarted", "away", "dropped", "killed")),
        *((fault, "judging") for fault in ("restarted", "restarted and killed")),
    ],
)
def test_a_failing_catalog_in_postgresql_loses_and_doubles_nothing(gradebook, start, server, tmp_path, fault, moment):
    run = start("--lake", f"postgres:{server.create_database()}", "--data", str(tmp_path / "lake"))
    run.run_until(moment)
    POSTGRES_FAULTS[fault](server, run)
    run.finish()
    assert_whole(gradebook, run, was_killed="killed" in fault)


# -------- object storage
@pytest.fixture
def store(storage: Storage, monkeypatch) -> Iterator[FaultyStore]:
    proxy = FaultyStore(storage.port)
    for name, text in storage.environment.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    yield proxy
    proxy.close()


@pytest.mark.parametrize(("fault", "count"), [("503", 1), ("lost", 1), ("cut", 10**6), ("lost", 10**6)])
def test_uploads_that_fail_halfway_publish_nothing_in_part(gradebook, start, storage, store, tmp_path, fault, count):
    prefix = f"{tmp_path.name}-{fault}-{count}".replace("_", "-").lower()
    run = start("--lake", f"sqlite:{tmp_path}/lake/catalog.sqlite", "--data", f"s3://{BUCKET}/{prefix}")
    run.run_until("judging")
    store.fault, store.left_count = fault, count
    code = None
    if count > 1:  # for as long as the command tries
        code, _, err = run.process.wait(300)
        assert code == 3, err
        store.left_count = 0
        (found,) = query(gradebook, "select count(*) n from runs where status = 'published'", *run.more)
        assert found == {"n": 0}
    run.finish()
    assert store.left_count == 0
    assert_whole(gradebook, run, was_killed=False)
    assert len(storage.names(f"{prefix}/data/main/verdicts")) == 1


@pytest.mark.parametrize("moment", ["judging", "publishing"])
def test_a_command_that_is_killed_leaves_object_storage_whole(gradebook, start, store, tmp_path, moment):
    prefix = f"{tmp_path.name}-{moment}".replace("_", "-").lower()
    run = start("--lake", f"sqlite:{tmp_path}/lake/catalog.sqlite", "--data", f"s3://{BUCKET}/{prefix}")
    run.run_until(moment)
    run.process.kill()
    run.finish()
    assert_whole(gradebook, run, was_killed=True)


# -------- Dask; flows/deployment/test_task_runners.py kills workers
def test_a_scheduler_that_is_killed_costs_no_verdict_and_no_request(gradebook, start, tmp_path):
    (tmp_path / "dask").mkdir()
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker()
        run = start("--runner", cluster.runner)
        run.run_until("judging")
        cluster.kill_scheduler()
        code, _, err = run.process.wait(300)
    assert code in (0, 3), err
    assert "gradebook: unexpected" not in err, err
    if code == 3:
        assert Forked(WORDS, tmp_path, **ENVIRONMENT).wait(300)[0] == 0
    run.more = ()
    assert_whole(gradebook, run, was_killed=False)

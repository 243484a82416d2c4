"""PostgreSQL that goes away in the middle of a commit, or loses the answer to one: each goes through once."""

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.lake import commits as lake_commits
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.postgres import PostgresServer
from tests.support.postgres_proxy import LossyProxy
from tests.support.samples import query, write_outputs, write_rubric

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[LossyProxy]:
    folder = Path(tempfile.mkdtemp(prefix="gradebook-pg-", dir="/tmp"))  # a socket's path holds 107 letters at most
    proxy = LossyProxy(folder, server.folder)
    threading.Thread(target=proxy.serve, daemon=True).start()
    yield proxy
    proxy.close()
    shutil.rmtree(folder)


@pytest.fixture
def place(server: PostgresServer, proxy: LossyProxy, tmp_path: Path) -> tuple[str, str, str, str]:
    """The options that name a new lake, by way of the proxy."""
    address = server.create_database().replace(str(server.folder), str(proxy.folder))
    return ("--lake", f"postgres:{address}", "--data", str(tmp_path / "lake"))


@pytest.fixture
def lake(place: tuple[str, str, str, str]) -> Lake:
    found = find_lake(place[1], place[3])
    prepare_lake(found)
    return found


def runs_of(lake: Lake) -> list[tuple[str, int]]:
    with connect(lake, read_only=True) as connection:
        return connection.execute("select run_id, version from runs").fetchall()


def add_run(lake: Lake, fault) -> tuple[int, int]:
    """Insert a run; the fault comes before its first commit. Returns the version, and how often it was tried."""
    tries = []

    def body(connection, version):
        connection.execute("insert into runs (run_id, version) values ('a', ?)", [version])
        tries.append(version)
        if len(tries) == 1:
            fault()

    return commit(lake, "add", body), len(tries)


@pytest.mark.nightly
def test_a_server_that_restarts_in_the_middle_of_a_transaction_gets_it_once(lake, server):
    version, try_count = add_run(lake, server.restart)
    assert try_count == 2
    assert runs_of(lake) == [("a", version)]


@pytest.mark.parametrize(("is_reached", "try_count"), [(True, 1), *nightly([(False, 2)])])
def test_a_commit_whose_answer_is_lost_is_done_once(lake, proxy, is_reached, try_count):
    def lose() -> None:
        proxy.is_reached, proxy.lost_count = is_reached, 1

    version, tried_count = add_run(lake, lose)
    assert tried_count == try_count
    assert runs_of(lake) == [("a", version)]


def test_a_server_that_stays_away_leaves_it_open_whether_a_commit_went_through(lake, proxy, monkeypatch):
    monkeypatch.setattr(lake_commits, "LOST_DEADLINE_S", 1.0)

    def lose() -> None:
        proxy.lost_count = 10**9
        proxy.close()

    with pytest.raises(UnfinishedError, match="it is not known whether 'add' was committed"):
        add_run(lake, lose)


# -------- a run
@pytest.fixture
def evaluation(place, tmp_path, monkeypatch) -> Iterator[Forked]:
    outputs, rubric = write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "rubric.yaml")
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        words = ["evaluate", outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--json", *place]
        yield Forked(words, tmp_path)


def wait_for_publication(process: Forked, folder: Path) -> None:
    while process.is_running and not any(folder.glob("lake/runs/*/marts/run_scores.parquet")):
        time.sleep(0.002)


@pytest.mark.parametrize("fault", ["lost", *nightly(["restart", "unreached"])])
def test_a_run_is_published_once_whatever_happens_to_its_commit(
    evaluation, fault, server, proxy, place, gradebook, tmp_path
):
    wait_for_publication(evaluation, tmp_path)
    if fault == "restart":
        server.restart()
    else:
        proxy.is_reached, proxy.lost_count = fault == "lost", 1
    code, out, err = evaluation.wait(120)
    assert code == 0, err
    counts = (
        "select (select count(*) from runs where status = 'published') r, (select count(*) from outputs) o, "
        "(select count(*) from verdicts) v, (select count(*) from judgments) j, (select count(*) from run_scores) s"
    )
    # 12 outputs, 2 criteria, one of them judged, 2 models
    assert query(gradebook, counts, *place) == [{"r": 1, "o": 12, "v": 24, "j": 12, "s": 2}]
    assert query(gradebook, "select version from runs", *place) == [{"version": json.loads(out)["version"]}]

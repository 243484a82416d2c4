"""A lake whose files are in object storage: runs, reading, refusals, and what a failed upload leaves."""

import itertools
import json
import multiprocessing
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gradebook.flows.evaluate_here import evaluate_here
from gradebook.rubrics.model.errors import InputError, LakeError, QueryError, StorageUnavailable
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.publish import conclude_run
from tests.support.law_over import law_over
from tests.support.nightly import nightly
from tests.support.published_runs import NOW, score_and_publish
from tests.support.s3 import BUCKET, CANARY, Storage, running_storage
from tests.support.samples import write_outputs
from tests.support.store_proxy import FaultyStore

RUBRIC = """
id: wording
version: {version}
criteria:
  - id: length
    description: Between 2 and 50 words.
    weight: 1
    method: {{type: check, check: length_words, settings: {{min: 2, max: 50}}}}
"""
ROOT = Path(__file__).parents[4]
names = (f"lake-{number}" for number in itertools.count())


@pytest.fixture
def place(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str, str]:
    """The options that name a new lake, whose key is in the environment."""
    for name, text in storage.environment.items():
        monkeypatch.setenv(name, text)
    return ("--lake", f"sqlite:{tmp_path}/lake/catalog.sqlite", "--data", f"s3://{BUCKET}/{next(names)}")


@pytest.fixture(scope="module")
def read_place(storage: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str, str]]:
    """The options that name an empty lake, for tests that write nothing."""
    folder = tmp_path_factory.mktemp("read")
    found = ("--lake", f"sqlite:{folder}/lake/catalog.sqlite", "--data", f"s3://{BUCKET}/{next(names)}")
    with pytest.MonkeyPatch.context() as patched:
        for name, text in storage.environment.items():
            patched.setenv(name, text)
        prepare_lake(lake_of(found))
        yield found


def prefix_of(place: tuple[str, ...]) -> str:
    return place[3].removeprefix(f"s3://{BUCKET}/")


def lake_of(place: tuple[str, ...]) -> Lake:
    return find_lake(place[1], place[3])


def request_of(folder: Path, place: tuple[str, ...], count: int = 4, version: str = "1.0.0") -> EvaluationRequest:
    outputs, rubric = write_outputs(folder / f"outputs-{count}.jsonl", count=count), folder / "rubric.yaml"
    rubric.write_text(RUBRIC.format(version=version), encoding="utf-8")
    return EvaluationRequest(str(outputs), str(rubric), lake=place[1], data=place[3])


def publish(request: EvaluationRequest) -> str:
    """Publish a run, without a report, and return its id."""
    with opened_run(request, NOW) as run:
        score_and_publish(run)
        return run.run_id


def publish_with_report(request: EvaluationRequest) -> RunSummary:
    with opened_run(request, NOW) as run:
        score_and_publish(run)
        return conclude_run(run)


def counts(lake: Lake) -> tuple[int, int, int]:
    """Published runs, outputs and verdicts."""
    query = """
    select (select count(*) from runs where status = 'published'), (select count(*) from outputs),
        (select count(*) from verdicts)
    """
    with connect(lake, read_only=True) as connection:
        found: tuple[int, int, int] = connection.execute(query).fetchone()
    return found


def test_a_run_is_published_and_read_from_the_bucket(gradebook, storage, place, tmp_path):
    run_id = publish(request_of(tmp_path, place))
    finished = gradebook("sql", "select count(*) n from verdicts", *place, "--format", "json")
    assert json.loads(finished.out) == [{"n": 8}], finished.err
    assert not (tmp_path / "lake/data").exists()
    verdicts = storage.names(f"{prefix_of(place)}/data/main/verdicts/run_id={run_id}")
    assert [name.startswith(f"{run_id}-") for name in verdicts] == [True]
    assert CANARY not in finished.out + finished.err


@pytest.mark.nightly
@pytest.mark.slow
def test_evaluate_takes_the_bucket_as_an_option(evaluate, place, tmp_path):
    request = request_of(tmp_path, place)
    finished = evaluate(request.outputs, "--rubric", request.rubric, *place)
    assert finished.code == 0, finished.err
    assert finished.json["output_count"] == 8 and CANARY not in finished.out + finished.err


@pytest.mark.nightly
@pytest.mark.slow
def test_commands_read_it_as_they_read_a_folder(gradebook, place, tmp_path):
    first = publish(request_of(tmp_path, place))
    second = publish(request_of(tmp_path, place, count=6))
    at = gradebook("sql", "select count(*) n from verdicts", "--at", first, *place, "--format", "json")
    assert json.loads(at.out) == [{"n": 8}], at.err
    for words in (
        ["compare", first, second, "--json"],
        ["report", second, "--out", "r.html"],
        ["lake", "rebuild", second, "--check"],
        ["runs"],
        ["lake", "versions"],
    ):
        finished = gradebook(*words, *place)
        assert finished.code in {0, 1} and "gradebook:" not in finished.err, (words, finished.err)
    assert (tmp_path / "r.html").stat().st_size > 10_000


@pytest.mark.nightly
def test_outputs_of_an_earlier_run_are_not_uploaded_again(storage, place, tmp_path):
    publish(request_of(tmp_path, place))
    publish(request_of(tmp_path, place, version="1.1.0"))
    assert len(storage.names(f"{prefix_of(place)}/data/main/outputs")) == 1
    assert counts(lake_of(place)) == (2, 8, 16)


@pytest.mark.parametrize(
    "query",
    [
        "from duckdb_secrets()",
        "from which_secret('s3://evaluations/x', 's3')",
        *nightly(
            [
                "select current_setting('s3_secret_access_key')",
                "explain select Current_Setting('http_proxy_password')",
                "from 's3://evaluations/other.parquet'",
                "from 's3://evaluations/{prefix}/data/../../other.parquet'",
                "from 's3://evaluations/{prefix}/data/main/verdicts/**'",
                "from read_parquet('s3://evaluations/{prefix}/data/**')",
                "select (from read_text('s3://evaluations/{prefix}/probe'))",
                "create or replace secret lake_files (type s3, key_id 'x')",
                "from 'https://127.0.0.1/x.parquet'",
            ]
        ),
    ],
)
def test_a_query_reaches_no_key_and_no_other_object(read_place, query):
    with pytest.raises(QueryError, match="sql: ") as caught:
        run_query(lake_of(read_place), query.replace("{prefix}", prefix_of(read_place)))
    assert CANARY not in str(caught.value)


def test_no_setting_of_a_connection_holds_the_key(read_place):
    with connect(lake_of(read_place), read_only=True) as connection:
        told = connection.execute("from duckdb_settings()").fetchall()
        told += connection.execute("from duckdb_secrets()").fetchall()
    assert CANARY not in str(told)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_key_is_written_nowhere(place, tmp_path):
    publish_with_report(request_of(tmp_path, place))
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(CANARY.encode() in path.read_bytes() for path in written)


def test_a_bucket_that_is_not_there_is_named(place, tmp_path):
    request = request_of(tmp_path, (*place[:3], "s3://no-such-bucket/lake"))
    with pytest.raises(LakeError, match="^s3://no-such-bucket/lake: found no bucket no-such-bucket, expected one"):
        publish(request)


@pytest.mark.slow
def test_a_refused_key_is_told_before_anything_is_asked(place, tmp_path, monkeypatch):
    with running_storage(INITIAL_NO_AUTH_ACTION_COUNT="2") as strict:  # the bucket, then none
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict.environment["AWS_ENDPOINT_URL"])
        with pytest.raises(LakeError, match="the storage refused the key in AWS_ACCESS_KEY_ID") as caught:
            publish(request_of(tmp_path, place))
    assert CANARY not in str(caught.value) and not (tmp_path / "lake/runs").exists()


@pytest.mark.slow
def test_a_key_that_may_not_write_is_refused_before_a_server_starts(place, storage, tmp_path, monkeypatch):
    store = FaultyStore(storage.port)
    store.fault, store.left_count = "403", 99
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
    monkeypatch.setenv("PREFECT_HOME", f"{tmp_path}/home")
    with pytest.raises(LakeError, match="the storage refused the key"):
        evaluate_here(request_of(tmp_path, place), prefect=True, is_shown=False)
    store.close()
    assert not (tmp_path / "home").exists() and not (tmp_path / "lake/runs").exists()


def test_a_bucket_that_was_probed_is_not_probed_again_by_the_run_that_follows(place, storage, monkeypatch):
    store = FaultyStore(storage.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
    prepare_lake(lake_of(place))
    store.fault, store.left_count = "403", 99
    prepare_lake(lake_of(place))
    store.close()
    assert store.left_count == 99


def test_a_missing_key_and_a_wrong_address_are_named(place, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"key:{CANARY}@host")
    with pytest.raises(LakeError, match=r"^AWS_ENDPOINT_URL: found no address") as caught:
        prepare_lake(lake_of(place))
    assert CANARY not in str(caught.value)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(LakeError, match="found no AWS_SECRET_ACCESS_KEY in the environment"):
        prepare_lake(lake_of(place))


@pytest.mark.nightly
@pytest.mark.slow
def test_storage_that_goes_before_the_upload_publishes_nothing(place, tmp_path, monkeypatch):
    with running_storage() as going:
        monkeypatch.setenv("AWS_ENDPOINT_URL", going.environment["AWS_ENDPOINT_URL"])
        with opened_run(request_of(tmp_path, place), NOW) as run:
            going.process.kill()
            going.process.wait()
            with pytest.raises(StorageUnavailable, match="the storage does not answer") as caught:
                score_and_publish(run)
    assert caught.value.exit_code == 3 and CANARY not in str(caught.value)
    assert counts(lake_of(place)) == (0, 0, 0)  # all of it in the catalog


@pytest.mark.nightly
@pytest.mark.slow
def test_killed_after_its_upload_a_run_leaves_the_lake_whole_and_the_rerun_no_orphan(storage, place, tmp_path):
    publish(request_of(tmp_path, place))
    again, verdicts = request_of(tmp_path, place, count=6), f"{prefix_of(place)}/data/main/verdicts"
    with closing(sqlite3.connect(lake_of(place).address, isolation_level=None)) as catalog:
        catalog.execute("begin immediate")  # whoever wants to commit waits
        process = multiprocessing.get_context("spawn").Process(target=publish, args=(again,))
        process.start()
        while process.is_alive() and len(storage.names(verdicts)) < 2:
            time.sleep(0.05)
        process.kill()
        process.join()
    assert counts(lake_of(place)) == (1, 8, 8)
    publish(again)
    # 12 outputs, 8 of them known; 8 + 12 verdicts, each run's in a file of its own
    assert counts(lake_of(place)) == (2, 12, 20)
    assert len(storage.names(verdicts)) == 2


@pytest.mark.nightly
@pytest.mark.slow
def test_one_run_id_at_work_on_two_machines_is_published_once(storage, place, tmp_path, monkeypatch):
    request = replace(request_of(tmp_path, place), run_id="night")
    with opened_run(request, NOW) as first:
        monkeypatch.setenv("GRADEBOOK_WORK", str(tmp_path / "other"))
        with opened_run(request, NOW + timedelta(seconds=1)) as second:
            score_and_publish(first)
            with pytest.raises(InputError, match="found night, which another process has published meanwhile"):
                score_and_publish(second)
    assert counts(lake_of(place)) == (1, 8, 8)
    assert len(storage.names(f"{prefix_of(place)}/data/main/verdicts")) == 1


def test_a_lake_of_a_bucket_is_not_taken_for_one_of_a_folder(place):
    prepare_lake(lake_of(place))
    with pytest.raises(LakeError, match=f"--data: found none, expected {place[3]}, where this lake's files are"):
        run_query(find_lake(place[1]), "from runs")


@law_over(
    ("data", "told"),
    [
        ("s3://b/x", "found 's3://b/x', expected a local folder or s3://BUCKET/PREFIX"),
        ("s3://bucket/run_id=a", "found 's3://bucket/run_id=a', expected"),
        ("s3://bucket/a/../b", "found 's3://bucket/a/../b', expected"),
        ("s3://bucket/*", r"found 's3://bucket/\*', expected"),
        (f"s3://key:{CANARY}@bucket/a", "found s3://... with a key or settings in it, expected"),
        (f"s3://bucket/a?secret={CANARY}", "found s3://... with a key or settings in it, expected"),
    ],
)
def test_an_address_that_is_none_of_a_bucket_is_refused_without_its_key(data, told):
    with pytest.raises(LakeError, match=f"^--data: {told}") as caught:
        find_lake("sqlite:lake/catalog.sqlite", data)
    assert CANARY not in str(caught.value)


def test_a_catalog_in_postgresql_needs_a_folder_to_work_in(monkeypatch, tmp_path):
    monkeypatch.delenv("GRADEBOOK_WORK", raising=False)
    with pytest.raises(LakeError, match="^GRADEBOOK_WORK: found none, expected the local folder of journals"):
        find_lake("postgres:dbname=x", "s3://bucket/lake")
    monkeypatch.setenv("GRADEBOOK_WORK", str(tmp_path))
    assert find_lake("postgres:dbname=x", "s3://bucket/lake").root == tmp_path


@pytest.mark.parametrize(("extension", "extra"), [("httpfs", "s3"), ("postgres_scanner", "postgres")])
def test_without_the_extension_its_package_is_named(tmp_path, extension, extra):
    code = """
import sys
sys.modules[f"duckdb_extension_{sys.argv[2]}"] = None
import duckdb
from gradebook.tasks.lake.attaching import load_extensions
load_extensions(duckdb.connect(config={"extension_directory": sys.argv[1]}), sys.argv[2])
"""
    command = [sys.executable, "-c", code, str(tmp_path), extension]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    remedy = f"found no package of it, expected it installed: pip install '.[{extra}]' in gradebook's clone"
    assert f"{extension} can't be loaded: {remedy}" in ended.stderr


@pytest.fixture
def postgres_place(place, server, tmp_path, monkeypatch) -> tuple[str, str, str, str]:
    monkeypatch.setenv("GRADEBOOK_WORK", str(tmp_path / "work"))
    return ("--lake", f"postgres:{server.create_database()}", *place[2:])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.postgres
def test_a_catalog_in_postgresql_with_files_in_the_bucket(gradebook, postgres_place, tmp_path):
    run_id = publish(request_of(tmp_path, postgres_place))
    publish(request_of(tmp_path, postgres_place, count=6))
    assert counts(lake_of(postgres_place)) == (2, 12, 20)
    query = "select count(*) n from verdicts"
    finished = gradebook("sql", query, "--at", run_id, *postgres_place, "--format", "json")
    assert json.loads(finished.out) == [{"n": 8}], finished.err
    assert (tmp_path / "work/runs" / run_id).is_dir()

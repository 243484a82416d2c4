"""Upkeep and examination of a lake whose files are in object storage, or whose catalog is on a PostgreSQL server."""

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.versions import list_versions
from gradebook.tasks.operations.doctor import examine as files
from gradebook.tasks.published.runs import list_runs
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.rebuild import rebuild_run
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from gradebook.tasks.workspace.lock import claim_run
from tests.support.nightly import nightly
from tests.support.postgres import PostgresServer
from tests.support.published_runs import NOW, score_and_publish
from tests.support.s3 import BUCKET, CANARY, Storage, running_storage
from tests.support.samples import write_outputs

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - {id: length, description: Short., weight: 1, method: {type: check, check: length_words, settings: {min: 1, max: 9}}}
"""
TABLES = ("runs", "outputs", "verdicts", "output_scores", "run_scores", "stage_costs")
ALL = {"flushed_from": 1, "merged_from": 2}
ORPHANS = ("data/main/verdicts/run_id=gone/gone-0123abcd-shard-00000.parquet", "data/main/outputs/ducklake-x.parquet")
# Of three runs: three files of verdicts, three of scores; of outputs the first one and what was flushed.
MERGED = 3 + 3 + 2
Place = tuple[str, str, str, str]
names = (f"kept-{number}" for number in itertools.count())


@pytest.fixture
def bucket(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The options that name a new lake in the bucket, whose key is in the environment."""
    for name, text in storage.environment.items():
        monkeypatch.setenv(name, text)
    return ("--lake", f"sqlite:{tmp_path}/lake/catalog.sqlite", "--data", f"s3://{BUCKET}/{next(names)}")


@pytest.fixture
def shared(server: PostgresServer, tmp_path: Path) -> Place:
    """The options that name a new lake with a catalog in PostgreSQL, and files in a folder."""
    return ("--lake", f"postgres:{server.create_database()}", "--data", str(tmp_path / "lake"))


def lake_of(place: Place) -> Lake:
    return find_lake(place[1], place[3])


def publish(folder: Path, place: Place, *counts: int) -> None:
    """Publish runs of so many outputs twice over; more than 200 rows of a table are a file."""
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    for count in counts:
        outputs = write_outputs(folder / f"{count}.jsonl", count)
        request = EvaluationRequest(str(outputs), str(folder / "rubric.yaml"), lake=place[1], data=place[3])
        with opened_run(request, NOW + timedelta(seconds=count)) as run:
            score_and_publish(run)


def contents(lake: Lake) -> dict[int, dict[str, object]]:
    """How many rows each table has at each version, and a digest of them."""
    versions = [each.version for each in list_versions(lake, 1_000, is_all=True).versions if each.version > 0]
    query = "select count(*), bit_xor(hash(rows)) from {} as rows"
    found = {}
    for version in versions:
        with connect(lake, read_only=True, at=version) as connection:
            found[version] = {table: connection.execute(query.format(table)).fetchall() for table in TABLES}
    return found


def problems(gradebook: Callable[..., Any], place: Place, *words: str) -> tuple[int, dict[str, list[str]]]:
    """The exit code of `gradebook doctor` and what it found that is not ok."""
    finished = gradebook("doctor", "--json", *words, *place)
    assert CANARY not in finished.out + finished.err
    told: dict[str, list[str]] = {}
    for each in json.loads(finished.out)["findings"]:
        if each["severity"] != "ok":
            told.setdefault(each["check"], []).append(each["found"])
    return finished.code, told


@pytest.mark.nightly
@pytest.mark.slow
def test_every_version_in_a_bucket_reads_the_same_after_upkeep(storage, bucket, tmp_path):
    publish(tmp_path, bucket, 110, 120, 130)
    lake, prefix = lake_of(bucket), bucket[3].removeprefix(f"s3://{BUCKET}/")
    before = contents(lake)
    done = compact_lake(lake, **ALL)
    assert ({"verdicts", "outputs", "output_scores"} <= {*done.merged}, done.left) == (True, ())
    there = storage.names(f"{prefix}/data")
    cleaned = compact_lake(lake, datetime.now(UTC) + timedelta(days=2), **ALL)
    left = storage.names(f"{prefix}/data")
    assert (cleaned.removed_count, len(there) - len(left)) == (MERGED, MERGED)
    assert cleaned.removed_bytes > MERGED * 100
    after = contents(lake)
    assert {version: after[version] for version in before} == before


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["bucket", *nightly(["shared"])])
def test_a_run_is_rebuilt_and_rescored_as_it_was_published_wherever_its_files_are(request, tmp_path, fixture):
    place = request.getfixturevalue(fixture)
    publish(tmp_path, place, 110)
    lake = lake_of(place)
    (row,) = list_runs(lake)
    heavier = tmp_path / "heavier.yaml"
    heavier.write_text(RUBRIC.replace("1.0.0", "1.1.0\npass_threshold: 0.5"))
    rescore_run(RescoreRequest(str(row["run_id"]), str(heavier), place[1], place[3], "heavier"))
    for run_id in (row["run_id"], "heavier"):
        rebuilt = rebuild_run(lake, run_id, is_checked=True)
        assert (rebuilt.is_equal, dict(rebuilt.marts)["output_scores"]) == (True, 220)


def put_orphans(storage: Storage, place: Place) -> list[str]:
    """Put objects that no version reads; their addresses."""
    for name in ORPHANS:
        with storage.files.open_output_stream(f"{place[3].removeprefix('s3://')}/{name}") as stream:
            stream.write(b"PAR1")
    return sorted(f"{place[3]}/{name}" for name in ORPHANS)


@pytest.mark.nightly
def test_orphans_in_a_bucket_are_listed_and_removed_after_a_day_and_not_before(
    storage,
    bucket,
    tmp_path,
    gradebook,
    monkeypatch,
):
    publish(tmp_path, bucket, 110)
    kept = storage.names(bucket[3].removeprefix(f"s3://{BUCKET}/"))
    addresses = put_orphans(storage, bucket)
    assert problems(gradebook, bucket, "--mend", "--deep") == (0, {})
    monkeypatch.setattr(files, "STORED_ORPHAN_AGE_S", -5.0)  # as if a day had passed; storage tells whole seconds
    told = [f"{address}: no version of the lake reads it" for address in addresses]
    assert problems(gradebook, bucket) == (0, {"orphans": told})
    with claim_run(lake_of(bucket).root / "runs", "print", "gone", NOW):  # its publication may be under way
        assert problems(gradebook, bucket) == (0, {"orphans": [told[0]]})
    finished = gradebook("doctor", "--mend", *bucket)
    assert [line.split()[1] for line in finished.out.splitlines()[:2]] == [f"{address}:" for address in addresses]
    assert storage.names(bucket[3].removeprefix(f"s3://{BUCKET}/")) == kept


@pytest.mark.nightly
def test_upkeep_removes_orphans_of_a_bucket_that_are_older_than_a_day(storage, bucket, tmp_path):
    publish(tmp_path, bucket, 110)
    put_orphans(storage, bucket)
    assert compact_lake(lake_of(bucket)).removed_count == 0
    done = compact_lake(lake_of(bucket), datetime.now(UTC) + timedelta(days=2))
    assert (done.removed_count, done.removed_bytes) == (2, 8)
    assert compact_lake(lake_of(bucket), datetime.now(UTC) + timedelta(days=2)).removed_count == 0


@pytest.mark.nightly
def test_an_object_that_is_gone_or_harmed_is_named(storage, bucket, tmp_path, gradebook, monkeypatch):
    publish(tmp_path, bucket, 110, 120)
    prefix = bucket[3].removeprefix("s3://")
    names = [name for name in storage.names(f"{prefix.partition('/')[2]}/data") if name.endswith(".parquet")]
    first, second = (f"{prefix}/data/{name}" for name in names[:2])
    size = storage.files.get_file_info(second).size
    storage.files.delete_file(first)
    with storage.files.open_output_stream(second) as stream:
        stream.write(b"\0" * size)
    code, found = problems(gradebook, bucket, "--deep")
    assert code == 1
    assert any(f"s3://{first}: found no such file" in told for told in found["files"]), found
    assert any(f"s3://{second}: can't be read: " in told for told in found["files"]), found


@pytest.mark.parametrize(
    ("settings", "data", "check", "told"),
    [
        *nightly(
            [
                (
                    {},
                    "s3://no-such-bucket/lake",
                    "storage",
                    "s3://no-such-bucket/lake: found no bucket no-such-bucket, expected",
                ),
                (
                    {},
                    f"s3://{BUCKET}/other",
                    "files",
                    f"s3://{BUCKET}/other/data: found none of the lake's 3 files, expected",
                ),
                (
                    {"AWS_SECRET_ACCESS_KEY": ""},
                    None,
                    "storage",
                    "--data s3://: found no AWS_SECRET_ACCESS_KEY in the environ",
                ),
                ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, None, "storage", "the storage does not answer"),
            ]
        ),
        (
            {"GRADEBOOK_WORK": "nowhere"},
            None,
            "disk",
            "nowhere: found no such folder, expected the lake's folder",
        ),
    ],
)
def test_what_keeps_the_doctor_from_a_bucket_is_a_finding(
    bucket, tmp_path, gradebook, monkeypatch, settings, data, check, told
):
    publish(tmp_path, bucket, 110)
    for name, text in settings.items():
        monkeypatch.setenv(name, text)
    code, found = problems(gradebook, (*bucket[:3], data or bucket[3]))
    assert (code, told in found[check][0]) == (1, True), found


@pytest.mark.slow
def test_a_key_that_storage_refuses_is_a_finding(bucket, tmp_path, gradebook, monkeypatch):
    prepare_lake(lake_of(bucket))
    with running_storage(INITIAL_NO_AUTH_ACTION_COUNT="2") as strict:  # the bucket, then none
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict.environment["AWS_ENDPOINT_URL"])
        code, found = problems(gradebook, bucket)
    assert (code, "the storage refused the key in AWS_ACCESS_KEY_ID" in found["storage"][0]) == (1, True)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_night_ends_with_upkeep_of_the_bucket(storage, bucket, tmp_path, gradebook, monkeypatch):
    monkeypatch.setattr("gradebook.tasks.lake.compaction.KEPT_FOR", timedelta(seconds=-5))  # as if a day had passed
    publish(tmp_path, bucket, 110)
    put_orphans(storage, bucket)
    write_outputs(tmp_path / "night.jsonl", 120)
    (tmp_path / "night.yaml").write_text("suites: [{id: a, rubric: rubric.yaml, outputs: night.jsonl}]", "utf-8")
    ended = gradebook("suite", "nightly", "night.yaml", "--json", *bucket)
    assert (ended.code, ended.json["upkeep_fault"]) == (0, None), ended.out
    assert (ended.json["upkeep"]["removed_count"], ended.json["upkeep"]["left"]) == (2, [])
    assert problems(gradebook, bucket, "--mend", "--deep") == (0, {})


def test_a_few_files_in_a_bucket_are_read_by_one_thread_and_many_by_several(bucket, monkeypatch):
    # Two threads that share small queries took twice the time that a report needs by one.
    prepare_lake(lake_of(bucket))
    threads = "select current_setting('threads')"
    with connect(lake_of(bucket), read_only=True) as connection:
        assert connection.execute(threads).fetchone() == (1,)
    monkeypatch.setattr("gradebook.tasks.lake.connections.ONE_THREAD_FILES", -1)
    monkeypatch.setattr("gradebook.tasks.lake.connections.LARGE_KNOWN_S", 0.0)
    with connect(lake_of(bucket), read_only=True) as connection:
        connection.execute("reset threads")
        every = connection.execute(threads).fetchone()
    with connect(lake_of(bucket), read_only=True) as connection:
        assert connection.execute(threads).fetchone() == every


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.postgres
def test_a_lake_of_postgresql_is_kept_and_examined_like_one_of_a_file(shared, tmp_path, gradebook, monkeypatch):
    publish(tmp_path, shared, 110, 120, 130)
    lake = lake_of(shared)
    before = contents(lake)
    done = compact_lake(lake, **ALL)
    assert ({"verdicts", "outputs", "output_scores"} <= {*done.merged}, done.left) == (True, ())
    assert compact_lake(lake, datetime.now(UTC) + timedelta(days=2), **ALL).removed_count == MERGED
    after = contents(lake)
    assert {version: after[version] for version in before} == before
    assert problems(gradebook, shared, "--mend", "--deep") == (0, {})
    commit(lake, "harm", lambda connection, _: connection.execute("update runs set output_count = 7"))
    assert problems(gradebook, shared)[1]["counts"][0].endswith("found 220 scored outputs, expected 7")


@pytest.mark.parametrize("kind", ["bucket", *nightly(["shared"])])
def test_a_second_catalog_beside_the_files_is_refused(request, tmp_path, kind):
    place = request.getfixturevalue(kind)
    prepare_lake(lake_of(place))
    prepare_lake(lake_of(place))  # its own catalog is not
    trial = find_lake(f"sqlite:{tmp_path}/trial/catalog.sqlite", place[3])
    with pytest.raises(LakeError, match="found no lake in the catalog, but files of one in"):
        prepare_lake(trial)
    assert not trial.is_there

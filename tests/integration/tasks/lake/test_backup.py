"""A lake copied while a run works, as docs/storage.md says, and read elsewhere: each run is whole, or not there."""

import multiprocessing
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from tests.support.published_runs import NOW, score_and_publish
from tests.support.s3 import BUCKET, Storage
from tests.support.samples import write_outputs

RUBRIC = """
id: wording
version: 1.{number}.0
criteria:
  - id: length
    description: Between 2 and 50 words.
    weight: 1
    method: {{type: check, check: length_words, settings: {{min: 2, max: 50}}}}
"""
VERDICTS = """
select runs.run_id, any_value(runs.output_count), count(verdicts.output_id), count(outputs.output_id)
from runs left join verdicts using (run_id) left join outputs using (output_id)
where runs.status = 'published' group by runs.run_id
"""


def publish(folder: Path, data: str | None, number: int, lake: str | None = None) -> None:
    outputs, rubric = write_outputs(folder / f"outputs-{number}.jsonl", 4 + number), folder / f"{number}.yaml"
    rubric.write_text(RUBRIC.format(number=number), encoding="utf-8")
    place = lake or f"sqlite:{folder}/lake/catalog.sqlite"
    with opened_run(EvaluationRequest(str(outputs), str(rubric), lake=place, data=data), NOW) as run:
        score_and_publish(run)


def publish_for_ever(folder: Path, data: str | None) -> None:
    for number in range(1, 1_000):
        publish(folder, data, number)


def rows(lake: Lake, query: str) -> list[tuple]:
    with connect(lake, read_only=True) as connection:
        return connection.execute(query).fetchall()


def published_count(lake: Lake) -> int:
    return int(rows(lake, "select count(*) from runs where status = 'published'")[0][0])


def back_up(folder: Path, data: str | None, copy_files: Callable[[], object]) -> None:
    """Publish a run, and copy the catalog and then the files while others are published."""
    publish(folder, data, 0)
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite", data)
    writer = multiprocessing.get_context("spawn").Process(target=publish_for_ever, args=(folder, data))
    writer.start()
    try:
        while writer.is_alive() and published_count(lake) < 2:
            time.sleep(0.2)
        (folder / "copy").mkdir()
        with closing(sqlite3.connect(lake.address)) as now, closing(sqlite3.connect(folder / "copy/c.sqlite")) as then:
            now.backup(then)
        copy_files()
        assert writer.is_alive()  # it wrote all the while
    finally:
        writer.kill()
        writer.join()


def assert_whole(lake: Lake) -> None:
    found = rows(lake, VERDICTS)
    assert len(found) >= 2
    assert all(outputs == verdicts == known for _, outputs, verdicts, known in found), found


@pytest.mark.nightly
@pytest.mark.slow
def test_a_folder_copied_while_runs_work_is_read_elsewhere(tmp_path):
    back_up(tmp_path, None, lambda: shutil.copytree(tmp_path / "lake/data", tmp_path / "copy/data"))
    shutil.rmtree(tmp_path / "lake")
    assert_whole(find_lake(f"sqlite:{tmp_path}/copy/c.sqlite"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_bucket_copied_while_runs_work_is_read_from_a_folder_and_a_bucket(
    storage: Storage,
    tmp_path,
    monkeypatch,
):
    for name, text in storage.environment.items():
        monkeypatch.setenv(name, text)
    data = f"s3://{BUCKET}/backed-up"
    back_up(tmp_path, data, lambda: storage.copy("backed-up/data", tmp_path / "copy/data"))
    storage.put(tmp_path / "copy/data", "restored/data")
    storage.files.delete_dir_contents(f"{BUCKET}/backed-up")
    for place in (str(tmp_path / "copy"), f"s3://{BUCKET}/restored"):
        assert_whole(find_lake(f"sqlite:{tmp_path}/copy/c.sqlite", place))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.postgres
def test_a_dump_of_postgresql_and_its_folder_are_read_elsewhere(tmp_path, server):
    lake = f"postgres:{server.create_database('lake')}"
    for number in range(2):
        publish(tmp_path, str(tmp_path / "files"), number, lake=lake)
    dump, restored = tmp_path / "catalog.dump", server.create_database("restored")
    subprocess.run([server.programs / "pg_dump", "-Fc", "-f", dump, server.connection("lake")], check=True)
    shutil.copytree(tmp_path / "files/data", tmp_path / "copy/data")
    shutil.rmtree(tmp_path / "files")
    subprocess.run([server.programs / "pg_restore", "-d", restored, dump], check=True)
    assert_whole(find_lake(f"postgres:{restored}", str(tmp_path / "copy")))

"""Whose data folder it is: no catalog writes or deletes beside the files of another."""

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake, refuse_unusable
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.operations.doctor.examine import fix_lake
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.nightly import nightly
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - {id: length, description: Short., weight: 1, method: {type: check, check: length_words, settings: {min: 1, max: 9}}}
"""
IN_TWO_DAYS = timedelta(days=2)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake with one published run, of more rows than a catalog takes in."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    rows = [{"case_id": f"c{n}", "model": "m", "output": f"Answer {n}"} for n in range(201)]
    publish(write_lines(folder / "a.jsonl", rows), folder / "rubric.yaml", run_id="run-a")
    return folder


@pytest.fixture
def lake(kept: Path, tmp_path: Path) -> Lake:
    shutil.copytree(kept / "lake", tmp_path / "lake")
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def files_of(lake: Lake) -> set[str]:
    return {path.relative_to(lake.data_path).as_posix() for path in Path(lake.data_path).rglob("*") if path.is_file()}


def parquet_of(lake: Lake) -> set[str]:
    return {name for name in files_of(lake) if name.endswith(".parquet")}


def write(lake: Lake) -> int:
    return commit(
        lake, "a row", lambda connection, _: connection.execute("insert into runs (run_id) values ('b')") and None
    )


def at_catalog(lake: Lake, name: str) -> Lake:
    return find_lake(f"sqlite:{lake.root}/{name}")


def in_catalog(lake: Lake, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(lake.address)) as catalog:
        catalog.execute(statement, values)
        catalog.commit()


@pytest.mark.parametrize("is_emptied", [True, *nightly([False])])
def test_a_lost_catalog_is_never_replaced_by_a_new_lake(lake, is_emptied):
    Path(lake.address).unlink()
    if is_emptied:
        Path(lake.address).touch()
    before = files_of(lake)
    for command in (prepare_lake, refuse_unusable, compact_lake, fix_lake):
        with pytest.raises(
            LakeError, match="found no lake in the catalog, but files of one in .* restore the catalog"
        ) as caught:
            command(lake)
        assert caught.value.exit_code == 2
    assert files_of(lake) == before
    assert Path(lake.address).exists() is is_emptied


def test_a_second_catalog_beside_the_first_is_refused_before_it_is_made(lake):
    with pytest.raises(LakeError, match="found no lake in the catalog, but files of one"):
        prepare_lake(at_catalog(lake, "trial.sqlite"))
    assert not (lake.root / "trial.sqlite").exists()


def test_a_catalog_of_another_folder_neither_writes_nor_deletes_here(lake, tmp_path):
    other = find_lake(f"sqlite:{tmp_path}/other/catalog.sqlite")
    prepare_lake(other)
    shutil.copy(other.address, lake.root / "trial.sqlite")
    trial, before = at_catalog(lake, "trial.sqlite"), parquet_of(lake)
    for command in (write, fix_lake, lambda lake: compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS)):
        with pytest.raises(LakeError, match="whose files belong to another catalog"):
            command(trial)
    assert parquet_of(lake) == before


def test_a_restored_backup_of_the_catalog_is_the_same_lake(lake):
    backup = lake.root / "backup.sqlite"
    shutil.copy(lake.address, backup)
    Path(lake.address).unlink()
    backup.rename(lake.address)
    assert write(lake) > 0


def test_a_lake_without_an_id_gets_it_on_its_first_write(lake):
    file = Path(lake.data_path) / "lake-id.json"
    noted = file.read_text(encoding="utf-8")
    file.unlink()
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select count(*) from verdicts").fetchall() == [(201,)]
    assert not file.exists()
    write(lake)
    assert file.read_text(encoding="utf-8") == noted


@pytest.mark.parametrize("emptied", ["catalog", *nightly(["folder"])])
def test_a_folder_without_an_id_that_contradicts_the_catalog_gets_none(lake, tmp_path, emptied):
    other = find_lake(f"sqlite:{tmp_path}/other/catalog.sqlite")
    prepare_lake(other)
    if emptied == "catalog":  # of an earlier gradebook that made a new lake in place of the lost catalog
        shutil.copy(other.address, lake.address)
        (Path(lake.data_path) / "lake-id.json").unlink()
    else:
        shutil.rmtree(lake.data_path)
    with pytest.raises(LakeError, match="found none of the catalog's"):
        write(lake)
    assert not (Path(lake.data_path) / "lake-id.json").exists()


def test_files_that_were_there_before_the_id_are_never_deleted(lake):
    (Path(lake.data_path) / "lake-id.json").unlink()
    found = Path(lake.data_path) / "main" / "verdicts" / "theirs-shard-00000.parquet"
    found.write_bytes(b"PAR1" * 4)  # of a second catalog that wrote here
    write(lake)
    assert compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS).removed_count == 0
    assert found.exists()


@pytest.mark.parametrize(
    "scheduled",
    [
        "{folder}/victim/thesis.txt",
        *nightly(["{data}/../../victim/thesis.txt", "{data}/main/verdicts/link/a-shard-00000.parquet"]),
    ],
)
def test_a_file_that_a_foreign_catalog_schedules_for_deletion_stays(lake, tmp_path, scheduled):
    (victim := tmp_path / "victim").mkdir()
    (victim / "thesis.txt").write_text("precious", encoding="utf-8")
    (victim / "a-shard-00000.parquet").write_text("precious", encoding="utf-8")
    (Path(lake.data_path) / "main" / "verdicts" / "link").symlink_to(victim)
    path = scheduled.format(folder=tmp_path, data=lake.data_path)
    in_catalog(
        lake, "insert into ducklake_files_scheduled_for_deletion values (999, ?, 0, '2020-01-01 00:00:00+00')", path
    )
    with pytest.raises(LakeError, match="among the files that its catalog wants deleted.*nothing was deleted"):
        compact_lake(lake)
    assert len(list(victim.iterdir())) == 2


@pytest.mark.parametrize(
    "name", ["a-shard-00000.parquet", *nightly(["ducklake-01890a5d-ac96-774b-bcce-b302099a8057.parquet"])]
)
def test_no_orphan_is_looked_for_behind_a_link(lake, tmp_path, name):
    (victim := tmp_path / "victim").mkdir()
    (victim / name).write_text("precious", encoding="utf-8")
    (Path(lake.data_path) / "main" / "verdicts" / "run_id=x").symlink_to(victim)
    assert compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS).removed_count == 0
    assert (victim / name).exists()


def test_a_file_of_another_program_in_a_table_s_folder_is_no_orphan(lake):
    mine = Path(lake.data_path) / "main" / "verdicts" / "thesis.parquet"
    mine.write_bytes(b"PAR1" * 4)
    assert compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS).removed_count == 0
    assert mine.exists()


@pytest.mark.parametrize("run_id", ["{folder}/victim", "../../victim", *nightly(["..", ""])])
def test_the_doctor_tidies_no_folder_that_a_run_id_of_the_catalog_names(lake, tmp_path, run_id):
    (tmp_path / "victim" / "media").mkdir(parents=True)
    named = run_id.format(folder=tmp_path)
    statement = "update runs set run_id = ? where run_id = 'run-a'"
    commit(lake, "planted", lambda connection, _: connection.execute(statement, [named]) and None)
    with pytest.raises(InputError, match="found a run of the id .*, expected up to 80 letters"):
        fix_lake(lake)
    assert (tmp_path / "victim" / "media").exists()


def test_the_doctor_tidies_no_folder_behind_a_link(lake, tmp_path):
    (tmp_path / "victim" / "media").mkdir(parents=True)
    shutil.rmtree(lake.root / "runs" / "run-a")
    os.symlink(tmp_path / "victim", lake.root / "runs" / "run-a")  # noqa: PTH211 - as a shell makes it
    fix_lake(lake)
    assert (tmp_path / "victim" / "media").exists()


def test_a_run_id_is_one_folder_below_the_runs(tmp_path):
    assert RunFolder.below(tmp_path, "a-1").path == tmp_path / "runs" / "a-1"
    for run_id in ("/etc", "..", "a/b", "", "a\n"):
        with pytest.raises(LakeError):
            RunFolder.below(tmp_path, run_id)


def test_a_folder_without_files_of_a_lake_takes_a_new_one(tmp_path):
    (tmp_path / "lake" / "data").mkdir(parents=True)
    (tmp_path / "lake" / "data" / "outputs.parquet").write_bytes(b"a user's own")
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    with pytest.raises(NoLakeThere):
        compact_lake(lake)
    prepare_lake(lake)
    assert write(lake) > 0

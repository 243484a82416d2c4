"""Files of an unfinished run that do not read are dropped, to be written anew."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.repair import drop_unreadable, unreadable_files


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    table = pa.table({"a": list(range(1_000))})
    for path in (shard(made), made.verdict_file("tone", 0), made.verdict_file("tone", 1), made.quarantine_file):
        write_parquet(path, table)
    for name in ("run.json", "ingest.json", "notes.json"):
        (made.path / name).write_text("{}")
    made.timings_file.write_text('{"stage":"plan"}\n{"stage":"score"}\n')
    return made


def shard(folder: RunFolder) -> Path:
    return folder.path / "shards" / "shard-00000.parquet"


def names(folder: RunFolder) -> set[str]:
    return {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}


def test_whole_files_stay(folder: RunFolder):
    before = names(folder)
    drop_unreadable(folder)
    assert names(folder) == before


@pytest.mark.parametrize("left", [0, 3, 400])
def test_a_truncated_verdict_file_is_dropped_alone(folder: RunFolder, left: int):
    path = folder.verdict_file("tone", 0)
    path.write_bytes(path.read_bytes()[:left])
    before = names(folder)
    drop_unreadable(folder)
    assert before - names(folder) == {"verdicts/tone/shard-00000.parquet"}


def test_a_changed_bit_of_a_page_is_found_or_changes_no_value(folder: RunFolder):
    path = folder.verdict_file("tone", 0)
    whole, given = path.read_bytes(), pq.read_table(path)
    pages_end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")  # before the footer, its length and the mark
    for place in range(4, pages_end, 23):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        found = [*unreadable_files(folder)]
        assert found == [path] or pq.read_table(path).equals(given), place


@pytest.mark.parametrize("name", ["shards/shard-00000.parquet", "quarantine.parquet"])
def test_with_a_truncated_file_of_the_ingest_its_mark_is_dropped(folder: RunFolder, name: str):
    (folder.path / name).write_bytes(b"PAR1")
    before = names(folder)
    drop_unreadable(folder)
    assert before - names(folder) == {name, "ingest.json"}


def test_a_truncated_file_of_per_case_criteria_is_dropped_with_the_mark_of_the_ingest(folder: RunFolder):
    path = folder.case_criteria_file(0)
    path.parent.mkdir()
    path.write_bytes(b"PAR1")
    (folder.path / "notes.json").write_text("[" * 100_000)
    before = names(folder)
    drop_unreadable(folder)
    assert before - names(folder) == {str(path.relative_to(folder.path)), "ingest.json", "notes.json"}


def test_an_empty_json_file_is_dropped_but_the_identity(folder: RunFolder):
    (folder.path / "notes.json").write_text("")
    folder.identity_file.write_text("")
    assert [path.name for path in unreadable_files(folder)] == ["notes.json"]


def test_broken_lines_of_timings_are_dropped(folder: RunFolder):
    folder.timings_file.write_bytes(b'{"stage":"plan"}\n\0\0\n{"stage":"score"}\n{"sta')
    drop_unreadable(folder)
    assert folder.timings_file.read_text() == '{"stage":"plan"}\n{"stage":"score"}\n'


def test_records_of_money_are_never_dropped(folder: RunFolder):
    folder.budget_file.write_text("no line of a budget\n")
    drop_unreadable(folder)
    assert folder.budget_file.read_text() == "no line of a budget\n"


@pytest.mark.parametrize("name", ["shards", "verdicts/tone", "blocks"])
def test_nothing_is_dropped_through_a_link(folder: RunFolder, tmp_path: Path, name: str):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for file in ("shard-00000.parquet", "notes.json"):
        (theirs / file).write_text("not of the run")
    place = folder.path / name
    if place.exists():
        place.rename(tmp_path / "aside")
    place.symlink_to(theirs)
    drop_unreadable(folder)
    assert {path.read_text() for path in theirs.iterdir()} == {"not of the run"}
    assert len(list(theirs.iterdir())) == 2

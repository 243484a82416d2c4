"""Upkeep of a lake: fewer files, the same rows at every version, and nothing taken from whoever is at work."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.lake.versions import list_versions
from tests.support.other_writer import written_by_another
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - {id: length, description: Short., weight: 1, method: {type: check, check: length_words, settings: {min: 1, max: 9}}}
"""
TABLES = ("runs", "outputs", "verdicts", "output_scores", "run_scores", "criterion_scores", "stage_costs", "ratings")
IN_TWO_DAYS = timedelta(days=2)
ALL = {"flushed_from": 1, "merged_from": 2}


def write_cases(path: Path, count: int) -> Path:
    rows = [{"case_id": f"c{n}", "model": "m", "output": f"Answer {n} of {path.stem}"} for n in range(count)]
    return write_lines(path, rows)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake with three runs: each has more outputs than a catalog takes in."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    for name, count in (("a", 201), ("b", 202), ("c", 203)):
        publish(write_cases(folder / f"{name}.jsonl", count), folder / "rubric.yaml", run_id=f"run-{name}")
    return folder


@pytest.fixture
def lake(kept: Path, tmp_path: Path) -> Lake:
    shutil.copytree(kept / "lake", tmp_path / "lake")
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def contents(lake: Lake, at: int | None = None) -> dict[str, object]:
    """How many rows each table has, and a digest of them."""
    query = "select count(*), bit_xor(hash(rows)) from {} as rows"
    with connect(lake, read_only=True, at=at) as connection:
        return {table: connection.execute(query.format(table)).fetchall() for table in TABLES}


def versions_of(lake: Lake) -> list[int]:
    """The versions that have all tables."""
    return [each.version for each in list_versions(lake, 1_000, is_all=True).versions if each.version > 0]


def files_of(lake: Lake) -> set[str]:
    return {path.relative_to(lake.data_path).as_posix() for path in Path(lake.data_path).rglob("*") if path.is_file()}


@pytest.mark.nightly
def test_every_version_reads_the_same_after_its_files_are_merged_and_removed(lake):
    commit(lake, "take a run away", lambda connection, _: connection.execute("delete from runs where run_id = 'run-a'"))
    before = {version: contents(lake, version) for version in versions_of(lake)}
    done = compact_lake(lake, **ALL)
    assert {"runs", "run_scores"} <= {*done.flushed}
    assert {"verdicts", "outputs", "output_scores"} <= {*done.merged}
    cleaned = compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS, **ALL)
    assert (cleaned.removed_count, cleaned.left) == (9, ())  # three tables with a file a run
    assert {version: contents(lake, version) for version in before} == before


@pytest.mark.nightly
def test_a_run_is_read_by_at_and_another_is_published_after_compaction(gradebook, lake, kept, tmp_path):
    compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS, **ALL)
    summary = publish(write_cases(tmp_path / "d.jsonl", 204), kept / "rubric.yaml", run_id="run-d", baseline="run-b")
    assert summary.comparison is not None
    query = "select run_id, count(*) as n from verdicts group by all order by all"
    rows = gradebook("sql", query, "--at", "run-b", "--lake", f"sqlite:{lake.address}", "--format", "csv")
    assert rows.out.split() == ["run_id,n", "run-a,201", "run-b,202"], rows.err


def test_a_second_time_there_is_nothing_to_do(lake):
    compact_lake(lake, **ALL)
    again = compact_lake(lake, **ALL)
    assert (again.flushed, again.merged, again.removed_count) == ((), (), 0)
    assert again.file_count_before == again.file_count_after


def test_a_small_lake_is_left_alone(lake):
    # 3 runs: no table has 10 files, nor 2,000 rows in the catalog
    before = versions_of(lake)
    done = compact_lake(lake)
    assert (done.flushed, done.merged, versions_of(lake)) == ((), (), before)


def test_compaction_is_listed_among_the_versions_on_the_way_only(lake):
    done = compact_lake(lake, flushed_from=1_000_000, merged_from=2)
    assert len(done.merged) == 3
    kinds = [each.kind for each in list_versions(lake, 100, is_all=True).versions]
    assert kinds.count("upkeep") == 3
    assert all(each.kind != "upkeep" for each in list_versions(lake, 100).versions)


def test_files_of_a_killed_run_are_removed_after_a_day_and_not_before(lake):
    orphan = Path(lake.data_path) / "main" / "verdicts" / "run_id=gone" / "gone-shard-00000.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"PAR1" * 4)
    assert compact_lake(lake).removed_count == 0
    done = compact_lake(lake, datetime.now(UTC) + IN_TWO_DAYS)
    assert (done.removed_count, done.removed_bytes, orphan.exists()) == (1, 16, False)


def test_a_file_written_days_ago_and_linked_just_now_stays(lake, tmp_path):
    # A run at work links its verdict files into the tables' folder and commits them a moment later.
    (written := tmp_path / "shard.parquet").write_bytes(b"PAR1")
    three_days_ago = datetime.now(UTC).timestamp() - 3 * 86_400
    os.utime(written, (three_days_ago, three_days_ago))
    linked = Path(lake.data_path) / "main" / "verdicts" / "run-d-shard-00000.parquet"
    os.link(written, linked)
    assert compact_lake(lake).removed_count == 0
    assert linked.exists()


def test_what_meets_a_writer_is_left_and_said(lake, monkeypatch):
    monkeypatch.setattr("gradebook.tasks.lake.compaction.MOST_TRIES", 1)  # SQLite waits for some seconds in each
    before, files = contents(lake), files_of(lake)
    with written_by_another(lake):
        done = compact_lake(lake, flushed_from=1_000_000, merged_from=2)
    assert done.merged == ()
    assert {"merge outputs", "merge verdicts"} <= {*done.left}
    assert "postponed to the next compaction, as others were writing: merge" in done.sentence
    assert (contents(lake), files_of(lake) >= files) == (before, True)


def test_no_lake_is_made_where_there_is_none(tmp_path):
    with pytest.raises(LakeError, match="found no lake there"):
        compact_lake(find_lake(f"sqlite:{tmp_path}/catalog.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_did(gradebook, lake):
    done = gradebook("lake", "compact", "--lake", f"sqlite:{lake.address}", "--json")
    assert (done.code, done.json["file_count_before"], done.json["file_count_after"]) == (0, 9, 9)
    said = gradebook("lake", "compact", "--lake", f"sqlite:{lake.address}").out
    assert said.startswith("nothing to merge: 9 files of ")

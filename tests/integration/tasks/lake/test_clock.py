"""A clock that is set back: what came after what is known by the lake's versions, not by times."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.versions import find_version, list_versions
from tests.support.samples import query, write_lines

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), os.environ.get("LIBFAKETIME"))
CLOCKS = {"first": "+2d", "second": "+0d", "third": "-1d"}  # each beside the true time
RUBRIC = """
id: short
version: 1.0.0
criteria:
  - {id: length, description: Short., weight: 1, method: {type: check, check: length_words, settings: {min: 1, max: 9}}}
"""
PUBLISH = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from tests.support import published_runs

for told in sys.argv[1:]:
    run_id, clock = told.split()
    Path(os.environ["FAKETIME_TIMESTAMP_FILE"]).write_text(clock)
    published_runs.NOW = datetime.now(UTC)
    published_runs.publish(Path(f"{run_id}.jsonl").absolute(), Path("rubric.yaml"), run_id=run_id, baseline="latest")
"""


def publish(folder: Path) -> None:
    """Publish the runs by a process whose clock is so far from the true time, also that of its C libraries."""
    for run_id in CLOCKS:
        rows = [{"case_id": f"c{n}", "model": "m", "output": f"Answer {n} of {run_id}"} for n in range(4)]
        write_lines(folder / f"{run_id}.jsonl", rows)
    (folder / "clock").write_text(CLOCKS["first"], encoding="ascii")
    told = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    command = [sys.executable, "-c", PUBLISH, *(f"{run_id} {clock}" for run_id, clock in CLOCKS.items())]
    subprocess.run(command, cwd=folder, env=os.environ | told, check=True, timeout=120)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of three runs; before the second and before the third, the clock was set back by a day and more."""
    if LIBRARY is None:
        pytest.skip("found no libfaketimeMT.so.1, expected Debian's package libfaketime, or LIBFAKETIME to name it")
    folder = tmp_path_factory.mktemp("clocks")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    publish(folder)
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def place(lake: Lake) -> tuple[str, str]:
    return ("--lake", f"sqlite:{lake.address}")


def test_the_times_of_the_versions_went_back(lake: Lake):
    # the second was made a day and more before the first, the third before the second
    made = {each.run_id: each.made_at for each in list_versions(lake, 100).versions if each.kind == "published"}
    assert made["first"] - made["second"] > timedelta(days=1)
    assert made["second"] - made["third"] > timedelta(hours=23)


def test_runs_are_listed_as_the_lake_took_them_in(gradebook, lake: Lake):
    listed = gradebook("runs", "--json", *place(lake)).json["runs"]
    assert [run["run_id"] for run in listed] == ["third", "second", "first"]


def test_each_run_was_compared_with_the_one_before_it(gradebook, lake: Lake):
    before = "select run_id, settings ->> 'baseline_run_id' as b from runs order by version"
    found = {row["run_id"]: row["b"] for row in query(gradebook, before, *place(lake))}
    assert found == {"first": None, "second": "first", "third": "second"}


def test_each_version_reads_as_it_was(lake: Lake):
    counts = {}
    for run_id in CLOCKS:
        with connect(replace(lake, at=find_version(lake, run_id)), read_only=True) as connection:
            ((counts[run_id],),) = connection.execute("select count(distinct run_id) from verdicts").fetchall()
    assert counts == {"first": 1, "second": 2, "third": 3}


def test_a_time_means_the_last_version_whose_stamp_is_not_after_it(lake: Lake):
    now = datetime.now(UTC)
    times = [now - timedelta(hours=20), now + timedelta(hours=1), now + timedelta(days=3)]
    assert {find_version(lake, time.isoformat()) for time in times} == {find_version(lake, "third")}
    with pytest.raises(InputError, match="expected a time that is not before the first version"):
        find_version(lake, (now - timedelta(days=2)).isoformat())


def test_nothing_is_wrong_with_such_a_lake_and_upkeep_leaves_it_whole(gradebook, lake: Lake, monkeypatch):
    assert compact_lake(lake, flushed_from=1, merged_from=2).left == ()
    examined = gradebook("doctor", "--deep", *place(lake))
    assert examined.code == 0, examined.out
    assert gradebook("status", *place(lake)).code == 0
    assert query(gradebook, "select count(*) as n from verdicts", *place(lake)) == [{"n": 12}]  # 3 runs of 4 outputs

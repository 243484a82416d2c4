"""Timings of a run's work: a command's start, other processes, and work that a resumed run did again."""

import time
from pathlib import Path

import pytest

from gradebook.tasks.system.command_start import begin_command
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import (
    Timing,
    append_other,
    append_start,
    append_timing,
    process_cpu_s,
    read_timings,
    timed,
)

FIRST = (
    Timing("ingest", wall_s=1, row_count=80),
    Timing("plan", row_count=80),
    Timing("score", "tone", row_count=40, shard_index=0),
    Timing("score", "tone", row_count=40, replayed_count=3, shard_index=1),
)
SECOND = (
    Timing("ingest", wall_s=1, row_count=80),
    Timing("plan", row_count=80),
    Timing("plan"),  # again, after a batch
    Timing("score", "tone", row_count=40, replayed_count=9, shard_index=1),
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_the_start_of_a_command_belongs_to_its_first_run(folder):
    begin_command(time.perf_counter())
    append_start(folder)
    append_start(folder)
    (row,) = read_timings(folder).to_pylist()
    assert (row["stage"], row["wall_s"] > 0, row["cpu_s"] > 0) == ("start", True, True)


def test_what_no_piece_measured_is_other_and_nothing_counts_twice(folder):
    append_start(folder)
    began_s = process_cpu_s()
    with timed(folder, "score"):
        spend_cpu()
    spend_cpu()
    append_other(folder)
    used_s = process_cpu_s() - began_s
    append_other(folder)  # the run is published: nothing is left
    score, other = read_timings(folder).to_pylist()
    assert (score["stage"], other["stage"]) == ("score", "other")
    assert min(score["cpu_s"], other["cpu_s"], other["wall_s"]) > 0
    assert score["cpu_s"] + other["cpu_s"] == pytest.approx(used_s, rel=0.2)


def spend_cpu() -> None:
    began_s = process_cpu_s()
    while process_cpu_s() - began_s < 0.05:
        pass


def test_a_piece_that_a_later_command_did_again_counts_once_and_its_time_twice(folder):
    for timing in (*FIRST, *SECOND):
        append_timing(folder, timing)
    rows = read_timings(folder).to_pylist()
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["stage"]] = counts.get(row["stage"], 0) + row["row_count"]
    assert counts == {"ingest": 80, "plan": 80, "score": 80}
    assert sum(row["replayed_count"] for row in rows) == 9
    assert sum(row["wall_s"] for row in rows) == 2

"""What judges said of a shard is held as long as somebody may ask for it, and no longer."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession
from gradebook.tasks.judging.settings.judge import CascadeSettings, ReplaySettings
from gradebook.tasks.methods.judge_shard import JudgedShards, SavedCosts
from gradebook.tasks.system.files import write_parquet, write_text
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing
from tests.support.asked import TONE


@pytest.fixture
def judged(tmp_path: Path) -> JudgedShards:
    """Shards without a question."""
    (tmp_path / "replies.jsonl").write_text("")
    settings = ReplaySettings(tmp_path / "replies.jsonl", "0" * 32)
    rubric = Rubric.model_construct(id="r", criteria=())
    session = ReplaySession(settings, tmp_path / "journal", "run")
    return JudgedShards(RunFolder(tmp_path / "run"), rubric, settings, (session,))


def collect(tmp_path: Path, shard_index: int, text: str) -> None:
    write_text(RunFolder(tmp_path / "run").collected_file(shard_index), text)


def test_what_was_said_of_a_shard_is_held_until_its_verdicts_are_put_together(judged: JudgedShards, tmp_path: Path):
    said = judged.answers("shard", 0)
    judged.answers("shard", 1)
    assert judged.answers("shard", 0) is said
    collect(tmp_path, 0, "verdicts")
    judged.answers("shard", 2)
    assert judged.answers("shard", 0) is not said


def test_verdicts_of_an_interrupted_command_let_go_of_nothing(judged: JudgedShards, tmp_path: Path):
    collect(tmp_path, 0, "verdicts")
    said = judged.answers("shard", 0)
    judged.answers("shard", 1)
    assert judged.answers("shard", 0) is said


def test_what_an_interrupted_command_counted_as_saved_is_not_counted_again(tmp_path: Path):
    folder, rubric = RunFolder(tmp_path / "run"), Rubric.model_construct(id="r", criteria=(TONE,))
    finished = {"status": ["scored", "scored"], "request_key": ["a", None]}
    waiting = {"status": ["scored", "unscored"], "request_key": ["b", "c"]}  # is scored, and counted, again
    write_parquet(folder.verdict_file("tone", 0), pa.table(finished))
    write_parquet(folder.detail_file("opinions", "tone", 0), pa.table({"request_key": ["d"]}))
    write_parquet(folder.verdict_file("tone", 1), pa.table(waiting))
    timing = Timing("score")
    SavedCosts(folder, rubric).count(timing, 4, {"a": 0.5, "b": 0.25, "c": 0.125, "d": 1.0})
    assert (timing.replayed_count, timing.saved_usd) == (4, 0.375)


def test_a_fault_between_the_judges_of_a_cascade_ends_the_asking_of_all(tmp_path: Path):
    (tmp_path / "replies.jsonl").write_text("")
    members = [ReplaySettings(tmp_path / "replies.jsonl", str(number) * 32) for number in range(2)]
    sessions = tuple(ReplaySession(one, tmp_path / "journal", "run") for one in members)
    folder, rubric = RunFolder(tmp_path / "run"), Rubric.model_construct(id="r", criteria=(TONE,))
    folder.plan_file("tone", 0).parent.mkdir(parents=True)
    columns = ("output_id", "criterion_id", "request_key", "replicate", "is_swapped", "judge_index", "status")
    pq.write_table(pa.table({name: pa.array([], pa.string()) for name in columns}), folder.plan_file("tone", 0))
    shards = JudgedShards(folder, rubric, CascadeSettings(members[0], members[1]), sessions)
    with pytest.raises(pa.ArrowException) as first:
        shards.answers("shard", 0)
    with pytest.raises(pa.ArrowException) as second:
        shards.answers("a shard without a plan", 1)
    assert first.value is second.value

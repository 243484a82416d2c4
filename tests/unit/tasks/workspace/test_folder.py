"""A run's folder: one process at a time, and the same command goes on with the run it began."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import claim_run, created_at

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


def test_a_new_run_is_named_by_its_time(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as claim:
        assert claim.folder.run_id.startswith("20261120-023000-")
        assert created_at(claim.folder) == NOW


def test_a_published_run_keeps_what_it_spent_and_sent_but_nothing_that_it_worked_with(tmp_path):
    kept = ("budget.jsonl", "batches/record.jsonl", "report.html")
    working = (
        "media/shard-00000.parquet",
        "plan/a/shard-00000.parquet",
        "batches/0a.requests.jsonl",
        "batches/0a.keys",
    )
    for name in (*kept, *working):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    RunFolder(tmp_path).tidy()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(kept)


def test_notes_are_kept_over_commands_each_once(tmp_path):
    RunFolder(tmp_path).keep_notes([None, "one"])
    RunFolder(tmp_path).keep_notes(["two", "one"])
    assert RunFolder(tmp_path).notes == ("one", "two")


def test_the_same_evaluation_goes_on_in_its_unfinished_folder(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        pass
    with claim_run(tmp_path, "print", None, NOW) as again:
        assert again.folder == first.folder


def test_another_evaluation_gets_a_folder_of_its_own(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        pass
    with claim_run(tmp_path, "other", None, NOW) as other:
        assert other.folder != first.folder


def test_a_published_run_is_not_gone_on_with(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        first.folder.published_file.write_text("{}")
    with claim_run(tmp_path, "print", None, NOW) as second:
        assert second.folder != first.folder


def publish_untidily(folder: RunFolder) -> Path:
    """As a process that is killed once its run is published; returns what it worked with."""
    folder.published_file.write_text("{}")
    plan = folder.plan_file("tone", 0)
    plan.parent.mkdir(parents=True)
    plan.write_text("")
    return plan


def test_what_a_killed_process_left_of_a_published_run_is_removed_by_the_next_one_of_the_same(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        left = publish_untidily(first.folder)
    with claim_run(tmp_path, "other", None, NOW):
        assert left.exists()
    with claim_run(tmp_path, "print", None, NOW):
        assert (left.exists(), first.folder.published_file.exists()) == (False, True)


def test_a_published_run_whose_process_is_still_at_it_is_not_tidied_by_another(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        left = publish_untidily(first.folder)
        with claim_run(tmp_path, "print", None, NOW):
            assert left.exists()


def test_a_run_at_work_in_another_process_is_left_alone(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first, claim_run(tmp_path, "print", None, NOW) as second:
        assert second.folder != first.folder


def test_a_named_run_at_work_is_refused(tmp_path):
    with claim_run(tmp_path, "print", "night", NOW), pytest.raises(InputError, match="another process"):
        claim_run(tmp_path, "print", "night", NOW)


def test_a_named_run_of_something_else_is_refused_and_left_free(tmp_path):
    with claim_run(tmp_path, "print", "night", NOW):
        pass
    with pytest.raises(InputError, match="night"):
        claim_run(tmp_path, "other", "night", NOW)
    with claim_run(tmp_path, "print", "night", NOW) as again:
        assert again.folder == RunFolder(Path(tmp_path) / "night")


# -------- what a power failure leaves: a file of the right name, with nothing of what was written into it
@pytest.mark.parametrize("torn", ["", "[1]", "{}", '"text"'])
def test_a_run_that_does_not_say_what_it_evaluates_is_in_nobodys_way(tmp_path, torn):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text(torn)
    with claim_run(tmp_path, "a", None, NOW) as claim:
        assert claim.folder.run_id != "torn"


def test_to_name_such_a_run_is_refused_and_leaves_it_free(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").touch()
    for _ in range(2):
        with pytest.raises(InputError, match=r"torn/run.json: found no fingerprint of a run, .* remove its folder"):
            claim_run(tmp_path, "a", "torn", NOW)

"""Run folder: one process at a time; the same command continues its unfinished run."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.workspace.folder import RunFolder, report_url
from gradebook.tasks.workspace.lock import claim_run, created_at, has_lost_identity

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


def test_a_new_run_is_named_by_its_time(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as claim:
        assert claim.folder.run_id.startswith("20261120-023000-")
        assert created_at(claim.folder) == NOW


@pytest.mark.parametrize("site", ["", "https://pages.example/evals/"])
def test_a_report_s_address_is_on_the_site_or_a_file(tmp_path, monkeypatch, site):
    monkeypatch.setenv("GRADEBOOK_SITE_URL", site)
    expected = "https://pages.example/evals/runs/r.html" if site else f"file://{tmp_path}/r/report.html"
    assert report_url(RunFolder(tmp_path / "r")) == expected


def test_a_published_run_retains_spending_and_batches_but_no_working_files(tmp_path):
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


def test_notes_of_several_commands_are_stored_once_each(tmp_path):
    RunFolder(tmp_path).add_notes([None, "one"])
    RunFolder(tmp_path).add_notes(["two", "one"])
    assert RunFolder(tmp_path).notes == ("one", "two")


def test_the_same_evaluation_continues_in_its_unfinished_folder(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        pass
    with claim_run(tmp_path, "print", None, NOW) as again:
        assert again.folder == first.folder


def test_another_evaluation_gets_a_folder_of_its_own(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        pass
    with claim_run(tmp_path, "other", None, NOW) as other:
        assert other.folder != first.folder


def test_a_published_run_is_not_continued(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        first.folder.published_file.write_text("{}")
    with claim_run(tmp_path, "print", None, NOW) as second:
        assert second.folder != first.folder


def publish_untidily(folder: RunFolder) -> Path:
    """Leave a published run as a process killed before tidying does; returns a working file."""
    folder.published_file.write_text("{}")
    plan = folder.plan_file("tone", 0)
    plan.parent.mkdir(parents=True)
    plan.write_text("")
    return plan


def test_working_files_left_by_a_killed_process_are_removed_by_the_next_run_of_the_same_evaluation(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        left = publish_untidily(first.folder)
    with claim_run(tmp_path, "other", None, NOW):
        assert left.exists()
    with claim_run(tmp_path, "print", None, NOW):
        assert (left.exists(), first.folder.published_file.exists()) == (False, True)


def test_a_published_run_is_not_tidied_while_its_process_is_running(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first:
        left = publish_untidily(first.folder)
        with claim_run(tmp_path, "print", None, NOW):
            assert left.exists()


def test_a_run_of_another_live_process_is_not_claimed(tmp_path):
    with claim_run(tmp_path, "print", None, NOW) as first, claim_run(tmp_path, "print", None, NOW) as second:
        assert second.folder != first.folder


def test_a_named_run_of_another_live_process_is_refused(tmp_path):
    with claim_run(tmp_path, "print", "night", NOW), pytest.raises(InputError, match="another process"):
        claim_run(tmp_path, "print", "night", NOW)


def test_a_named_run_of_another_evaluation_is_refused_and_left_unlocked(tmp_path):
    with claim_run(tmp_path, "print", "night", NOW):
        pass
    with pytest.raises(InputError, match="night"):
        claim_run(tmp_path, "other", "night", NOW)
    with claim_run(tmp_path, "print", "night", NOW) as again:
        assert again.folder == RunFolder(Path(tmp_path) / "night")


def test_a_run_s_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "tsconfig.json").write_text("// no JSON")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "night").symlink_to(tmp_path / "theirs")
    with pytest.raises(LakeError, match="runs/night: found a link, expected a folder of the lake's own"):
        claim_run(tmp_path / "runs", "print", "night", NOW)
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["tsconfig.json"]


# -------- after a power failure: a file of the right name without its content
@pytest.mark.parametrize("torn", ["", "[1]", "{}", '"text"', '{"fingerprint": "a", "created_at": "2026-11-2"}'])
def test_a_run_with_an_unreadable_identity_does_not_block_others(tmp_path, torn):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text(torn)
    with claim_run(tmp_path, "a", None, NOW) as claim:
        assert claim.folder.run_id != "torn"


@pytest.mark.parametrize(("found", "damaged"), [("2026-11-2", "2026-12-2"), ("night", "nighs")])
def test_a_changed_identity_is_damage(tmp_path, found, damaged):
    with claim_run(tmp_path, "print", "night", NOW) as claim:
        assert not has_lost_identity(claim.folder)
    file = tmp_path / "night" / "run.json"
    file.write_text(file.read_text().replace(found, damaged))
    assert has_lost_identity(claim.folder)
    with pytest.raises(InputError, match="found no fingerprint and time of a run"):
        claim_run(tmp_path, "print", "night", NOW)


def test_naming_a_run_with_an_unreadable_identity_is_refused_and_leaves_it_unlocked(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").touch()
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"torn/run.json: found no fingerprint and time of a run, .* remove its folder"
        ):
            claim_run(tmp_path, "a", "torn", NOW)

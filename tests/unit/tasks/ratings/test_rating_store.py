"""Leases, versions and durability of a rating session's file."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.ratings.rating_store import LEASE_S, Mark, RatingStore, Sheet, StaleSheet, Task

NOW = 1_000.0
RATED_AT = datetime(2026, 11, 20, tzinfo=UTC)
GOOD, BAD = Mark("tone", "good", 1.0, None), Mark("tone", "bad", 0.0, None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RatingStore]:
    store = opened(tmp_path, overlap=2)
    yield store
    store.close()


def opened(folder: Path, overlap: int, count: int = 2) -> RatingStore:
    store = RatingStore(folder / "rating" / "run.sqlite", overlap)
    store.set_tasks([Task(f"o{place}", "random", 0.5, {"output": "text"}) for place in range(count)])
    return store


def given(store: RatingStore, rater: str, now: float = NOW) -> Sheet:
    sheet = store.next_sheet(rater, now)
    assert sheet is not None
    return sheet


def submit(store: RatingStore, sheet: Sheet, mark: Mark = GOOD, level: str = "good") -> None:
    store.submit(sheet, {"level.tone": level}, [mark], RATED_AT, 5.0)


def test_an_output_goes_to_as_many_raters_as_it_needs_and_no_more(store: RatingStore):
    assert [given(store, rater).position for rater in ("anna", "ben", "cleo")] == [1, 1, 2]


def test_a_begun_sheet_comes_back_to_its_rater_with_its_draft(store: RatingStore):
    sheet = given(store, "anna")
    assert store.save_draft(sheet.position, "anna", {"level.tone": "good"}, NOW)
    again = given(store, "anna", NOW + 10 * LEASE_S)
    assert (again.position, again.content) == (sheet.position, {"level.tone": "good"})


def test_an_output_left_for_longer_than_a_lease_goes_to_another_rater(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    assert given(store, "anna").position == 1
    assert given(store, "ben", NOW + 1).position == 2
    assert given(store, "cleo", NOW + LEASE_S + 0.5).position == 1
    store.close()


def test_a_skipped_output_goes_to_another_rater_and_not_back(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    store.skip(given(store, "anna").position, "anna")
    assert [given(store, rater).position for rater in ("anna", "ben")] == [2, 1]
    store.close()


def test_a_rater_reads_only_sheets_that_were_given_to_the_rater(store: RatingStore):
    position = given(store, "anna").position
    assert store.sheet(position, "ben") is None
    assert not store.save_draft(position, "ben", {"level.tone": "bad"}, NOW)


def test_the_same_submission_twice_is_one(store: RatingStore):
    sheet = given(store, "anna")
    submit(store, sheet)
    submit(store, sheet)
    assert len(store.open_marks()) == 1


def test_a_stale_page_overwrites_nothing(store: RatingStore):
    sheet = given(store, "anna")
    submit(store, sheet)
    with pytest.raises(StaleSheet):
        submit(store, sheet, BAD, "bad")
    assert [mark["level_id"] for mark in store.open_marks()] == ["good"]


def test_a_revision_adds_only_what_changed(store: RatingStore):
    sheet = given(store, "anna")
    length = Mark("length", "short", 0.0, None)
    store.submit(sheet, {"level.tone": "good", "level.length": "short"}, [GOOD, length], RATED_AT, 5.0)
    again = store.sheet(sheet.position, "anna")
    assert again is not None
    store.submit(again, {"level.tone": "bad", "level.length": "short"}, [BAD, length], RATED_AT, 5.0)
    assert [(mark["criterion_id"], mark["level_id"]) for mark in store.open_marks()] == [
        ("tone", "good"),
        ("length", "short"),
        ("tone", "bad"),
    ]


def test_progress_counts_what_a_rater_has_done_and_can_still_get(store: RatingStore):
    submit(store, given(store, "anna"))
    found = store.progress("anna", NOW)
    assert (found.done_count, found.left_count, found.pace_s) == (1, 1, 5.0)


def test_a_larger_queue_keeps_the_places_and_takes_the_new_rate(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    submit(store, given(store, "anna"))
    store.set_tasks([Task(f"o{place}", "random", 1.0, {"output": "text"}) for place in range(4)])
    assert [given(store, "anna").position for _ in range(1)] == [2]
    assert store.open_marks()[0]["inclusion_rate"] == 1.0
    store.close()


def test_marks_wait_until_the_lake_has_them(store: RatingStore):
    submit(store, given(store, "anna"))
    (mark,) = store.open_marks()
    store.set_stored(mark["mark_id"])
    assert store.open_marks() == []


def test_a_second_process_is_refused_by_name(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    with pytest.raises(InputError, match="another process that serves it"):
        RatingStore(store.path, 1)
    store.close()
    RatingStore(store.path, 1).close()


def test_a_file_of_something_else_is_refused_by_name(tmp_path: Path):
    (tmp_path / "x.sqlite").write_text("no database\n" * 100)
    with pytest.raises(InputError, match=r"x\.sqlite: found a file that can't be used"):
        RatingStore(tmp_path / "x.sqlite", 1)


def test_only_the_account_can_read_a_session(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    assert (store.path.parent.stat().st_mode & 0o777, store.path.stat().st_mode & 0o777) == (0o700, 0o600)
    store.close()


def test_an_output_that_nobody_was_given_leaves_the_queue_and_one_with_new_texts_is_rated_again(tmp_path: Path):
    store = opened(tmp_path, overlap=1)
    submit(store, given(store, "anna"))
    store.set_tasks([Task("o0", "adjudicate", None, {"output": "text", "opinions": {"tone": []}})])
    assert given(store, "anna").position == 1
    store.skip(1, "anna")
    assert store.next_sheet("anna", NOW) is None
    store.close()


def test_a_mark_is_of_its_output_although_another_one_takes_its_position(tmp_path: Path):
    store = opened(tmp_path, overlap=1, count=1)
    submit(store, given(store, "anna"))
    store.set_stored(1)
    store.set_tasks([Task("other", "random", 0.5, {"output": "text"}), Task("o0", "random", 0.5, {"output": "new"})])
    submit(store, given(store, "anna"))
    submit(store, given(store, "anna"))
    assert [(mark["output_id"], mark["level_id"]) for mark in store.open_marks()] == [("other", "good"), ("o0", "good")]
    store.close()

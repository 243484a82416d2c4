"""Rubric versions in a real lake: what was kept comes back the same, and the pointer goes forward only."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.rubric_store.versions import (
    RubricState,
    delete_pointer,
    list_versions,
    refuse_changed_rubric,
    register_rubric,
    store_rubric,
    stored_rubric,
    version_before,
)
from tests.support.nightly import matrix
from tests.support.rubric_strategies import rubrics

NOW = datetime(2026, 11, 1, tzinfo=UTC)
GENERAL = read_rubric("general_answer")


def keep(lake: Lake, *kept: Rubric) -> None:
    def body(connection, _version):
        for rubric in kept:
            store_rubric(connection, rubric, NOW)

    commit(lake, "keep rubrics", body)


def at(version: str, **changes: object) -> Rubric:
    return GENERAL.model_copy(update={"version": version, **changes})


# Ten lists of rubrics, each in one transaction of one lake: an id a list and place keeps them apart.
@pytest.mark.nightly
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(rubrics(), min_size=1, max_size=5))
def test_any_rubric_comes_back_from_the_lake_with_its_digest(lake: Lake, found: list[Rubric]):
    count = len(list_versions(lake))
    kept = [rubric.model_copy(update={"id": f"rubric_{count + place}"}) for place, rubric in enumerate(found)]
    keep(lake, *kept)
    stored = [stored_rubric(lake, f"{rubric.id}@{rubric.version}") for rubric in kept]
    assert [rubric_digest(rubric) for rubric in stored if rubric] == [rubric_digest(rubric) for rubric in kept]


def test_an_id_means_the_newest_version_whatever_was_used_last(lake: Lake):
    keep(lake, at("1.9.0"), at("1.10.0"), at("1.2.0"))
    found = stored_rubric(lake, "general_answer")
    assert found is not None
    assert found.version == "1.10.0"


def test_versions_are_listed_the_newest_first(lake: Lake):
    keep(lake, at("1.9.0"), at("1.10.0"))
    assert [row["rubric_version"] for row in list_versions(lake)] == ["1.10.0", "1.9.0"]


@pytest.mark.nightly
def test_a_deleted_pointer_comes_back_with_the_next_use(lake: Lake):
    keep(lake, at("1.0.0"))
    delete_pointer(lake, "general_answer")
    with pytest.raises(RubricError, match="general_answer@VERSION with one of 1.0.0"):
        stored_rubric(lake, "general_answer")
    keep(lake, at("1.0.0"))
    assert stored_rubric(lake, "general_answer") == at("1.0.0")


@pytest.mark.nightly
def test_what_has_no_pointer_can_not_lose_it(lake: Lake):
    with pytest.raises(InputError, match="found no latest version of 'nothing'"):
        delete_pointer(lake, "nothing")


def test_an_unknown_version_is_told_with_those_there_are(lake: Lake):
    keep(lake, at("1.0.0"))
    with pytest.raises(RubricError, match=r"found the version '1.0.1', expected one of 1.0.0"):
        stored_rubric(lake, "general_answer@1.0.1")


@pytest.mark.nightly
def test_another_text_under_a_kept_version_is_refused_with_the_difference(lake: Lake):
    keep(lake, at("1.0.0"))
    with pytest.raises(RubricError, match=r"pass_threshold: 0.7 -> 0.8"):
        refuse_changed_rubric(lake, at("1.0.0", pass_threshold=0.8))


def test_a_version_is_kept_once_with_its_criteria_and_levels(lake: Lake):
    keep(lake, GENERAL)
    keep(lake, GENERAL)
    with connect(lake, read_only=True) as connection:
        (counts,) = connection.execute(
            "select (select count(*) from rubrics), (select count(*) from criteria), (select count(*) from levels)"
        ).fetchall()
    assert counts == (1, 5, 4 * 3 + 2)  # four criteria of three levels, and a check


@pytest.mark.nightly
def test_levels_are_added_to_a_version_that_an_earlier_gradebook_kept(lake: Lake):
    keep(lake, GENERAL)
    commit(lake, "an earlier gradebook", lambda connection, _version: connection.execute("delete from levels"))
    keep(lake, GENERAL)
    with connect(lake, read_only=True) as connection:
        assert connection.execute("select count(*) from levels").fetchall() == [(14,)]


@pytest.mark.parametrize(
    ("version", "before"),
    [("1.1.0", "1.0.0"), *matrix([("3.0.0", "2.0.0"), ("0.9.0", "2.0.0"), ("2.0.0", None)])],
)
def test_the_version_before_is_the_highest_below(lake: Lake, version: str, before: str | None):
    keep(lake, at("1.0.0"), at("2.0.0"))
    found = version_before(lake, at(version))
    assert (found.version if found else None) == before


@pytest.mark.nightly
def test_a_kept_version_with_another_text_is_its_own_predecessor(lake: Lake):
    keep(lake, at("1.0.0"))
    assert version_before(lake, at("1.0.0", pass_threshold=0.8)) == at("1.0.0")


def test_a_draft_that_no_run_used_is_no_predecessor(lake: Lake):
    keep(lake, at("1.0.0"))
    register_rubric(lake, at("1.1.0"), RubricState.draft, NOW)
    found = [version_before(lake, at("1.1.0", **changes)) for changes in ({}, {"pass_threshold": 0.8})]
    assert [rubric and rubric.version for rubric in found] == ["1.0.0", "1.0.0"]

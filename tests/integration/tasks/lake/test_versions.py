"""`--at`: which version of a lake a number, a run or a time means, and what the lake was then."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date, prepare_lake
from gradebook.tasks.lake.schema import is_up_to_date
from gradebook.tasks.lake.versions import find_lake_at, find_version
from tests.support.law_over import law_over
from tests.support.nightly import matrix

TIMES = (
    "2026-11-01 09:30:14.000000+00",  # 0: nothing; 1: the tables
    "2026-11-01 09:30:15.250000+00",
    "2026-11-01 09:30:15.500000+00",
    "2026-11-01 23:59:59.999999+00",
    "2026-11-02 00:00:00.000000+00",
)
PUBLISHED, FAILED, LAST = 2, 3, 4
ADD_RUN = "insert into runs (run_id, status, version) values (?, ?, ?)"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose versions were made at `TIMES`: a run published, two that were not, one of them named as a day."""
    found = find_lake(f"sqlite:{tmp_path_factory.mktemp('versions')}/lake/catalog.sqlite")
    prepare_lake(found)
    for run_id, status in (("nightly", "published"), ("broken", "failed"), ("2026-11-09", "running")):
        version = PUBLISHED if status == "published" else None
        commit(found, run_id, lambda connection, _, row=(run_id, status, version): connection.execute(ADD_RUN, row))
    with closing(sqlite3.connect(found.address)) as catalog, catalog:
        catalog.executemany(
            "update ducklake_snapshot set snapshot_time = ? where snapshot_id = ?", zip(TIMES, range(5), strict=True)
        )
    return found


@law_over(
    ("text", "version"),
    [
        ("1", 1),
        ("nightly", PUBLISHED),
        ("2026-11-01T09:30:15.25", 1),
        ("2026-11-01T09:30:15.249999", 0),
        ("2026-11-01 09:30:15", 2),  # to the end of the second
        ("2026-11-01T09:30:14Z", 0),
        ("2026-11-01T09:30", 2),
        ("2026-11-01T10:30+01:00", 2),
        ("2026-11-01T09:30:15.5-00", 2),
        ("2026-11-01", 3),  # to the end of the day, UTC
        ("2026-11-02T00:00:00.000000", LAST),
        ("2027-01-01", LAST),
    ],
)
def test_a_text_means_a_version(lake: Lake, text: str, version: int):
    assert find_version(lake, text) == version


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nightli", "found 'nightli', expected a version, the id of a published run or a time"),
        ("-1", "found '-1', expected a version, the id of a published run or a time"),
        ("", "found '', expected a version"),
        ("1e3", "found '1e3', expected a version"),
        pytest.param("9" * 5_000, "expected a version, the id", id="5,000 digits"),
        ("2026-11-01T", "found '2026-11-01T', expected a version"),
        ("broken", "found run broken, which is failed, expected a published run"),
        ("2026-11-09", "found run 2026-11-09, which is running, expected a published run"),
        ("2026-10-31", "expected a time that is not before the first version, of 2026-11-01 09:30:14 UTC"),
        ("2026-13-01", "found 2026-13-01, expected a time that there is"),
        ("9999-12-31", "found 9999-12-31, expected a time that there is"),
        ("0001-01-01T00:00+01", "expected a time that there is"),
    ],
)
def test_a_text_that_means_none_is_refused_with_what_is_expected(lake: Lake, text: str, told: str):
    with pytest.raises(InputError) as refused:
        find_version(lake, text)
    assert str(refused.value).startswith("--at: found ")
    assert told in str(refused.value)


def test_a_lake_is_read_as_it_was_and_named_so(lake: Lake):
    then = find_lake_at(f"sqlite:{lake.address}", None, "nightly")
    with connect(then, read_only=True) as connection:
        assert connection.execute("select run_id from runs").fetchall() == [("nightly",)]
    assert then.name == f"{lake.address} at version 2"


def test_without_a_text_a_lake_is_read_as_it_is(lake: Lake):
    assert find_lake_at(f"sqlite:{lake.address}", None, None) == lake


@pytest.mark.parametrize("version", [5, 10**30])
def test_a_number_that_is_no_version_is_refused_as_the_lake_is_opened(lake: Lake, version: int):
    then = find_lake_at(f"sqlite:{lake.address}", None, str(version))
    with pytest.raises(LakeError, match=f"--at: found {version}, expected a version"), connect(then, read_only=True):
        pass


def test_a_lake_at_a_version_is_not_written(lake: Lake):
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        commit(replace(lake, at=PUBLISHED), "x", lambda connection, _: connection.execute("delete from runs"))


# -------- what an earlier gradebook made
@pytest.fixture
def widened(tmp_path: Path) -> Lake:
    """A lake whose version 2 lacks a table, a view and a column that version 3 has again."""
    found = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(found)

    def age(connection, _version):
        for change in ("drop view worst_outputs", "drop table opinions", "alter table criteria drop column position"):
            connection.execute(change)

    commit(found, "an earlier gradebook", age)
    prepare_lake(found)
    return found


@pytest.mark.parametrize("query", ["from opinions", *matrix(["select position from criteria"])])
def test_a_version_that_lacks_what_is_read_is_refused_by_name(widened: Lake, query: str):
    with (
        pytest.raises(
            LakeError, match=r"version 2, made before the lake had criteria.position, opinions, worst_outputs;"
        ),
        connect_up_to_date(replace(widened, at=2)) as connection,
    ):
        connection.execute(query)


def test_a_version_that_has_what_is_read_answers_and_stays_as_it_is(widened: Lake):
    with connect_up_to_date(replace(widened, at=2)) as connection:
        assert connection.execute("from runs").fetchall() == []
        assert not is_up_to_date(connection)
    with connect(widened, read_only=True) as connection:
        assert connection.execute("from ducklake_current_snapshot('lake')").fetchall() == [(3,)]

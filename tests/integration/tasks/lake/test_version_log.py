"""The versions of a lake: what made each, and what it added."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.lake.versions import VersionLog, list_versions
from tests.support.scored_lake import make_lake, write_scores

LEVELS = [{"id": "bad", "score": 0, "description": "x"}, {"id": "good", "score": 1, "description": "x"}]
CRITERION = {"id": "tone", "description": "?", "method": {"type": "ratings"}, "levels": LEVELS}
RUBRIC = Rubric.model_validate({"id": "r", "version": "1.0.0", "criteria": [CRITERION]})
ADD_RATINGS = "insert into ratings (rater) from range(?)"
OF_B = ("run b running", "judgments of b", "judgments of b", "run b failed")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """1: the tables; 2: run a; 3 to 6: run b, which fails; 7: ratings; 8: without a message; 9: one taken away."""
    found = make_lake(Path(tmp_path_factory.mktemp("log")))
    write_scores(found, "a", RUBRIC, [{"case_id": case, "scores": {"tone": 1.0}} for case in ("c1", "c2", "c3")])
    for message in OF_B:
        commit(found, message, lambda connection, _: connection.execute("insert into judgments (run_id) values ('b')"))
    commit(found, "import ratings of s.csv", lambda connection, _: connection.execute(ADD_RATINGS, [250]))
    commit(found, None, lambda connection, _: connection.execute(ADD_RATINGS, [2]))
    commit(found, "take one away", lambda connection, _: connection.execute("delete from judgments where rowid = 0"))
    return found


def kinds(log: VersionLog) -> dict[int, str]:
    return {each.version: each.kind for each in log.versions}


def test_what_changed_for_readers_is_listed_the_newest_first(lake: Lake):
    log = list_versions(lake, 20)
    assert [*kinds(log).items()] == [
        (9, "other"),
        (8, "other"),
        (7, "ratings"),
        (6, "failed"),
        (2, "published"),
        (1, "tables"),
    ]
    assert (log.older_count, log.hidden_count) == (0, 4)


def test_all_are_listed_where_they_are_asked_for(lake: Lake):
    log = list_versions(lake, 20, is_all=True)
    on_the_way = {3: "running", 4: "judgments", 5: "judgments", 0: "empty"}
    assert {version: kind for version, kind in kinds(log).items() if version in on_the_way} == on_the_way
    assert (len(log.versions), log.hidden_count) == (10, 0)


def test_a_limit_takes_the_newest_and_counts_the_others(lake: Lake):
    log = list_versions(lake, 2)
    assert ([*kinds(log)], log.older_count, log.hidden_count) == ([9, 8], 4, 4)


def test_a_run_is_named_where_a_version_is_of_one(lake: Lake):
    run_ids = {each.version: each.run_id for each in list_versions(lake, 20, is_all=True).versions}
    assert run_ids == {0: None, 1: None, 2: "a", **dict.fromkeys((3, 4, 5, 6), "b"), 7: None, 8: None, 9: None}


def test_the_rows_that_a_version_added_are_counted_by_table(lake: Lake):
    counts = {each.version: each.row_counts for each in list_versions(lake, 20).versions}
    assert [*counts[2].items()][:3] == [("output_scores", 3), ("outputs", 3), ("verdicts", 3)]
    assert counts[2]["levels"] == 2
    assert [counts[version] for version in (9, 8, 7, 1)] == [{}, {"ratings": 2}, {"ratings": 250}, {}]


def test_a_version_without_a_message_says_what_changed(lake: Lake):
    assert list_versions(lake, 2).versions[1].message == "inlined insert"


def test_a_version_has_the_time_it_was_made(tmp_path: Path):
    before = datetime.now(UTC)
    (made,) = list_versions(make_lake(tmp_path), 1).versions
    assert before <= made.made_at <= datetime.now(UTC)


@pytest.mark.parametrize("limit", [0, -1, 10**30])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, limit: int):
    with pytest.raises(InputError, match=f"--limit: found {limit:,}, expected 1 to 1,000,000"):
        list_versions(find_lake(f"sqlite:{tmp_path}/no.sqlite"), limit)

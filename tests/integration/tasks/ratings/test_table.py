"""Ratings stored one after the other: which are new, and which were taken back."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.ratings.import_ratings import RatingImport, import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.run_ratings import match_ratings, score_ratings
from gradebook.tasks.ratings.tables import count_ratings
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.nightly import matrix

RUBRIC = parse_rubric(
    """
id: rated
version: 1.0.0
criteria:
  - id: tone
    description: Is it kind?
    method: {type: ratings}
    levels: [{id: bad, score: 0}, {id: okay, score: 0.5}, {id: good, score: 1}]
""",
    "rubric.yaml",
)
OUTPUT = {"output_id": "o1", "case_id": "c1", "model": "m", "sample_index": 0, "output": "o1"}


@dataclass(frozen=True)
class Place:
    """A lake with one output, and a folder for files of ratings."""

    path: Path
    lake: Lake

    def take(self, *marks: str, is_dry: bool = False, rater: str = "anna") -> RatingImport:
        """Import marks of the output, a row each: a level, or a level and a date."""
        rows: list[dict[str, Any]] = []
        for mark in marks:
            level, _, day = mark.partition(" ")
            rows.append({"case_id": "c1", "rater": rater, "tone": level} | ({"rated_at": day} if day else {}))
        (self.path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return import_ratings(self.lake, RUBRIC, RatingFile(self.path / "ratings.jsonl"), is_dry=is_dry)

    def kept(self) -> list[str | None]:
        """The levels in the order in which they were stored; None: taken back."""
        with connect(self.lake, read_only=True) as connection:
            return [level for (level,) in connection.execute("select level_id from ratings order by rowid").fetchall()]

    def verdict(self) -> dict[str, Any]:
        """Verdict on the output in a run that begins now, by the ratings that the lake has."""
        folder = RunFolder(self.path / "run")
        pq.write_table(pa.Table.from_pylist([OUTPUT], schema=SHARD_SCHEMA), self.path / "shard.parquet")
        match_ratings(self.lake, folder, RUBRIC, (str(self.path / "shard.parquet"),), None)
        shard = pq.read_table(self.path / "shard.parquet")
        row: dict[str, Any] = score_ratings("run", RUBRIC.criteria[0], shard, folder.ratings_file).to_pylist()[0]
        return row


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with an output, made once and copied."""
    path = tmp_path_factory.mktemp("made")
    lake = find_lake(f"sqlite:{path}/catalog.sqlite")
    prepare_lake(lake)
    outputs = pa.Table.from_pylist([OUTPUT], schema=SHARD_SCHEMA)

    def add(connection: Any, _version: int) -> None:
        connection.register("given", outputs)
        connection.execute("insert into outputs by name from given")

    commit(lake, "outputs", add)
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    shutil.copytree(made, tmp_path / "lake")
    return Place(tmp_path, find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"))


# -------- a rating said again
@pytest.mark.nightly
def test_an_undated_rating_said_again_after_another_one_counts(place):
    for level in ("good", "bad", "good"):
        place.take(level)
    assert place.kept() == ["good", "bad", "good"]
    assert place.verdict()["level_id"] == "good"


@pytest.mark.nightly
def test_undated_ratings_of_one_file_add_nothing_the_second_time(place):
    assert [place.take("good", "bad").new_count for _ in range(2)] == [2, 0]


@pytest.mark.nightly
def test_the_last_rating_of_a_file_counts_though_an_earlier_one_of_it_is_new(place):
    place.take("good")
    place.take("bad", "good")
    assert (place.kept(), place.verdict()["level_id"]) == (["good", "bad", "good"], "good")
    assert place.take("bad", "good").new_count == 0


@pytest.mark.nightly
def test_a_dry_run_counts_a_rating_said_again(place):
    for level in ("good", "bad"):
        place.take(level)
    assert place.take("good", is_dry=True).new_count == 1
    assert place.kept() == ["good", "bad"]


@pytest.mark.nightly
def test_a_dated_rating_is_stored_once_whatever_came_after_it(place):
    for mark in ("good 2026-11-01", "bad 2026-11-02", "good 2026-11-01"):
        place.take(mark)
    assert place.kept() == ["good", "bad"]


# -------- a rating taken back
@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        *matrix(
            [
                (["good", "n/a"], []),
                (["good 2026-11-01", "n/a 2026-11-02"], []),
                (["n/a 2026-11-02", "good 2026-11-01"], []),
                (["n/a", "good"], ["good"]),
                (["n/a 2026-11-01", "good 2026-11-02"], ["good"]),
                (["good 2026-11-01", "n/a"], ["good"]),  # what has no date comes after all that has one
            ]
        ),
        (["bad", "n/a", "good"], ["bad", "good"]),
    ],
)
def test_a_later_mark_of_a_file_that_does_not_apply_takes_the_rating_back(place, marks, kept):
    imported = place.take(*marks)
    assert (place.kept(), imported.rating_count, imported.missing_count) == (kept, len(kept), 1)


def test_what_does_not_apply_takes_back_a_rating_of_the_lake(place):
    place.take("good")
    assert place.take("n/a").taken_back_count == 1
    assert place.verdict()["reason"] == "not_rated"


@pytest.mark.nightly
def test_a_rating_is_taken_back_once(place):
    place.take("good")
    assert [place.take("n/a").taken_back_count for _ in range(2)] == [1, 0]
    assert place.kept() == ["good", None]


@pytest.mark.nightly
def test_a_rating_after_one_taken_back_counts(place):
    for level in ("good", "n/a", "good"):
        place.take(level)
    assert place.verdict()["level_id"] == "good"


@pytest.mark.nightly
def test_a_rating_taken_back_leaves_those_of_other_raters(place):
    place.take("good")
    place.take("bad", rater="bob")
    place.take("n/a")
    verdict = place.verdict()
    assert (verdict["level_id"], verdict["evidence"]) == ("bad", "bob: bad")


def test_what_does_not_apply_is_no_row_where_nothing_was_rated(place):
    assert (place.take("n/a").taken_back_count, place.kept()) == (0, [])


@pytest.mark.nightly
def test_a_mark_that_takes_back_is_counted_as_no_rating(place):
    place.take("good")
    place.take("n/a")
    ((count, mean),) = [(row["rating_count"], row["mean_score"]) for row in count_ratings(place.lake)]
    assert (count, mean) == (1, 1.0)


# -------- a decision of an adjudicator
@pytest.mark.parametrize(
    ("levels", "verdict"),
    [(["good"], ("good", 1.0)), *matrix([(["good", "bad"], ("bad", 0.0)), ([None], (None, None))])],
    ids=["it counts instead of the ratings", "the latest counts", "it does not apply"],
)
def test_a_decision_counts_and_the_ratings_stay(place, levels, verdict):
    place.take("good", rater="anna")
    place.take("bad", rater="bob")
    decisions = [
        ["tone", "lea", level, {"good": 1.0, "bad": 0.0}.get(level), f"2026-11-{day:02}"]
        for day, level in enumerate(levels, 1)
    ]

    def decide(connection: Any, _version: int) -> None:
        insert = (
            "insert into adjudications (output_id, criterion_id, adjudicator, level_id, score, decided_at) "
            "select output_id, ?, ?, ?, ?, ? from outputs"
        )
        connection.executemany(insert, decisions)

    commit(place.lake, "decide", decide)
    found = place.verdict()
    assert (found["level_id"], found["score"]) == verdict
    assert place.kept() == ["good", "bad"]

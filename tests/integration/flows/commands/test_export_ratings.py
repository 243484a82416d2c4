"""Exported ratings are what `people ratings import` reads: importing them again adds nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.commands.export import RatingShape
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.ratings.sheets import LeftOut, Naming
from gradebook.rubrics.importers.ratings.tables import read_json_row
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.ratings.export_ratings import _potato_rows, add_sheet_scores, exported_ratings
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.rubric_store.versions import store_rubric
from tests.support.rated_lake import TEXT
from tests.support.scored_lake import make_lake
from tests.support.served_ratings import RUN, rated_run

RUBRIC = parse_rubric(TEXT + TEXT[TEXT.index("  - id") :].replace("tone", "calm"), "rubric.yaml")
WHEN = datetime(2026, 11, 3, 9, tzinfo=UTC)
LATER = WHEN + timedelta(hours=1)
GIVEN = [  # output, criterion, rater, level, score, notes, source, time
    ("o0", "tone", "anna", "bad", 0.0, None, "file", WHEN),
    ("o0", "tone", "anna", "good", 1.0, None, "file", WHEN),  # the later one counts
    ("o0", "tone", "ben", "bad", 0.0, '=1+1, "curt"\n\u202e<b>', "file", WHEN),
    ("o0", "calm", "ben", "good", 1.0, None, "file", WHEN),
    ("o1", "tone", "ben", None, 0.5, None, "file", WHEN),  # a score between two levels
    ("o1", "calm", "ben", "bad", 0.0, None, "file", LATER),
    ("o2", "tone", "anna", "good", 1.0, None, "file", WHEN),
    ("o2", "tone", "anna", None, None, None, "file", WHEN),  # taken back
    ("o3", "tone", "lea", "good", 1.0, None, "adjudication", WHEN),  # a decision, not an opinion
]
STANDING = {
    ("o0", "tone", "anna", "good", None),
    ("o0", "tone", "ben", "bad", None),
    ("o0", "calm", "ben", "good", None),
    ("o1", "tone", "ben", None, 0.5),
    ("o1", "calm", "ben", "bad", None),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    found = rated_run(tmp_path_factory.mktemp("exported"))

    def ask_more(connection: Any, _version: int) -> None:
        connection.execute("delete from rubrics")
        store_rubric(connection, RUBRIC, WHEN)

    commit(found, "criteria", ask_more)

    def insert(connection: Any, _version: int) -> None:
        connection.executemany(
            "insert into ratings by name select ? as output_id, ? as criterion_id, ? as rater, "
            "? as level_id, ? as score, ? as notes, ? as source, ? as rated_at",
            GIVEN,
        )

    commit(found, "ratings", insert)
    return found


@pytest.mark.parametrize("shape", [each for each in RatingShape if each is not RatingShape.scale])
def test_an_export_is_read_back_as_the_ratings_that_stand(
    gradebook: Any, lake: Lake, tmp_path: Path, shape: RatingShape
) -> None:
    file = tmp_path / f"ratings.{'csv' if shape == 'csv' else 'jsonl'}"
    gradebook("people", "export", RUN, "--format", shape, "--out", file, f"--lake=sqlite:{lake.address}")
    taken = import_ratings(lake, RUBRIC, RatingFile(file, shape.value), is_dry=True)
    assert (taken.bad_count, taken.rating_count, taken.missing_count) == (0, len(STANDING), 0)
    assert (taken.new_count, taken.left_out) == (0, ())


def test_flat_rows_say_what_stands(lake: Lake) -> None:
    rows = exported_ratings(lake, None, "jsonl")
    names = ("output_id", "criterion_id", "rater", "level_id", "score")
    assert {tuple(row[name] for name in names) for row in rows} == STANDING
    of_run = exported_ratings(lake, RUN, "jsonl")
    assert [row | {"sheet_score": None} for row in of_run] == rows
    # anna rated one of two criteria with a weight: her sheet has no score; ben's is (0 + 1) / 2
    assert {(row["output_id"], row["rater"], row["sheet_score"]) for row in of_run} == {
        ("o0", "anna", None),
        ("o0", "ben", 0.5),
        ("o1", "ben", 0.25),
    }


def test_potatos_rows_have_what_its_analysis_reads():
    scale = "method: {type: ratings}\n    scale: {min: 1, max: 5}"
    rubric = parse_rubric(
        f"id: form\nversion: 1.0.0\ncriteria:\n"
        f"  - id: solves_it\n    description: Is it solved?\n    weight: 3\n    {scale}\n"
        "    metadata: {potato: {name: solves-it}}\n"
        f"  - id: brevity\n    description: Is it short?\n    weight: 1\n    {scale}\n",
        "form.yaml",
    )
    whose = dict.fromkeys(("checkpoint", "sample_index", "criteria")) | {"output_id": "o", "case_id": "c", "model": "m"}
    whose |= {"rater": "ann", "rated_at": WHEN}
    rows = [
        whose | {"criterion_id": "solves_it", "level_id": "4", "score": 0.75, "notes": "one step is missing"},
        whose | {"criterion_id": "brevity", "level_id": "2", "score": 0.25, "notes": None},
        whose | {"criterion_id": "overall", "level_id": "3", "score": 0.5, "notes": "fair"},
    ]
    add_sheet_scores(rows, rubric, ())
    (row,) = _potato_rows(rows, rubric)
    assert row["annotator"] == "ann" and row["trace_id"] == "c"
    assert row["rubric"] == {
        "criteria_ratings": {"solves-it": 4, "brevity": 2},
        "overall": 3,
        "notes": "fair",
        "criteria_notes": {"solves-it": "one step is missing"},
        "weighted_score": 3.5,  # (3 * 4 + 1 * 2) / 4
    }
    (sheet,) = read_json_row(row, Naming(), LeftOut())
    assert {(mark.criterion, mark.value, mark.notes) for mark in sheet.marks} == {
        ("solves-it", 4, "one step is missing"),
        ("brevity", 2, None),
        ("overall", 3, None),
    }


def test_a_lake_without_ratings_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gradebook people rate"):
        exported_ratings(make_lake(tmp_path), None, "jsonl")


def test_scales_shape_is_refused_with_the_command_that_writes_it(gradebook, tmp_path: Path) -> None:
    finished = gradebook("people", "export", "--format", "scale", "--lake", f"sqlite:{tmp_path}/catalog.sqlite")
    assert finished.code == 2
    assert "gradebook rubric export FILE --format scale --run RUN" in " ".join(finished.err.split())

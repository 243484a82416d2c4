"""Ratings: read with every fault at its line, matched to outputs, averaged over raters."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubrics.errors import RatingsError
from rubrics.library import parse_rubric
from rubrics.outputs import SHARD_SCHEMA
from tasks.lake import find_lake, prepare_lake
from tasks.scoring.ratings import match_ratings, read_ratings, score_ratings
from tasks.workspace import RunFolder

RUBRIC = parse_rubric(
    """
id: rated
version: 1.0.0
criteria:
  - id: empathy
    description: Names what the customer feels.
    method: {type: ratings}
    levels: [{id: none, score: 0}, {id: some, score: 0.5}, {id: clear, score: 1}]
""",
    "rubric.yaml",
)
HEAD = "case_id,model,criterion_id,rater,level_id\n"


def read(tmp_path: Path, text: str) -> pa.Table:
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    return read_ratings(path, RUBRIC)


def score(tmp_path: Path, text: str, *checkpoints: str | None) -> list[dict]:
    lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    prepare_lake(lake)
    rows = [
        {"output_id": f"o{n}", "case_id": "c1", "model": "m", "checkpoint": checkpoint, "sample_index": 0, "output": ""}
        for n, checkpoint in enumerate(checkpoints or (None,))
    ]
    shard = tmp_path / "shard.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SHARD_SCHEMA), shard)
    folder = RunFolder(tmp_path / "r")
    match_ratings(lake, folder, (str(shard),), read(tmp_path, text))
    return score_ratings("r", RUBRIC.criteria[0], str(shard), folder.ratings_file).to_pylist()


def test_raters_who_agree_give_their_level(tmp_path):
    (verdict,) = score(tmp_path, HEAD + "c1,m,empathy,a,some\nc1,m,empathy,b,some\n")
    assert (verdict["level_id"], verdict["score"]) == ("some", 0.5)


def test_raters_who_differ_give_their_mean_and_no_level(tmp_path):
    (verdict,) = score(tmp_path, HEAD + "c1,m,empathy,a,some\nc1,m,empathy,b,clear\n")
    assert (verdict["level_id"], verdict["score"]) == (None, 0.75)  # (0.5 + 1) / 2
    assert verdict["evidence"] == "a: some; b: clear"


def test_an_output_nobody_rated_is_unscored(tmp_path):
    (verdict,) = score(tmp_path, HEAD + "c2,m,empathy,a,some\n")
    assert (verdict["status"], verdict["reason"], verdict["score"]) == ("unscored", "not_rated", None)


def test_a_later_rating_of_the_same_rater_takes_the_place_of_the_earlier(tmp_path):
    rows = "c1,m,empathy,a,none,2026-11-01\nc1,m,empathy,a,clear,2026-11-02\n"
    (verdict,) = score(tmp_path, HEAD.replace("level_id", "level_id,rated_at") + rows)
    assert verdict["level_id"] == "clear"


def test_a_rating_that_fits_two_outputs_is_refused_at_its_line(tmp_path):
    with pytest.raises(RatingsError, match=r"ratings.csv:2: c1 of m: found 2 outputs"):
        score(tmp_path, HEAD + "c1,m,empathy,a,some\n", "1000", "2000")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("c1,m,empathy,a,huge", "level_id: found 'huge', expected one of none, some, clear"),
        ("c1,m,sympathy,a,some", "criterion_id: found 'sympathy', expected one of empathy"),
        ("c1,m,empathy,a,", "expected one of them"),
        (",m,empathy,a,some", "case_id"),
    ],
)
def test_a_rating_that_does_not_fit_is_told_with_its_line(tmp_path, line, words):
    with pytest.raises(RatingsError) as raised:
        read(tmp_path, HEAD + "c1,m,empathy,a,some\n" + line + "\n")
    assert f"ratings.csv:3: {words}" in str(raised.value) or words in str(raised.value)
    assert ":3:" in str(raised.value)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(RatingsError, match="expected rater among them"):
        read(tmp_path, "case_id,model,criterion_id,level_id\nc1,m,empathy,some\n")


def test_a_file_without_ratings_is_refused(tmp_path):
    with pytest.raises(RatingsError, match="found no ratings"):
        read(tmp_path, HEAD)

"""Ratings: read with every fault at its line, matched to outputs, averaged over raters, kept in the lake."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.model.errors import RatingsError
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.ratings.evaluation_file import RATING_SCHEMA, read_ratings
from gradebook.tasks.ratings.run_ratings import match_ratings, score_all_ratings, score_ratings
from gradebook.tasks.stages.publish import _insert_ratings
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.nightly import matrix

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
NEXT_RUBRIC = parse_rubric(
    """
id: rated
version: 2.0.0
criteria:
  - id: empathy
    description: Names what the customer feels.
    method: {type: ratings}
    levels: [{id: none, score: 0}, {id: some, score: 0.25}]
""",
    "rubric.yaml",
)
HEAD = "case_id,model,criterion_id,rater,level_id\n"
DATED_HEAD = "case_id,model,criterion_id,rater,level_id,rated_at\n"
SCORE_HEAD = "case_id,model,criterion_id,rater,score\n"


def read(tmp_path: Path, text: str, name: str = "ratings.csv") -> pa.Table:
    path = tmp_path / name
    path.write_text(text)
    return read_ratings(path, RUBRIC)


def write_shard(tmp_path: Path, *checkpoints: str | None) -> str:
    rows = [
        {"output_id": f"o{n}", "case_id": "c1", "model": "m", "checkpoint": checkpoint, "sample_index": 0, "output": ""}
        for n, checkpoint in enumerate(checkpoints)
    ]
    shard = tmp_path / "shard.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SHARD_SCHEMA), shard)
    return str(shard)


@dataclass(frozen=True, slots=True)
class Place:
    """A lake, and one shard with the outputs that are rated in it."""

    path: Path
    lake: Lake
    shard: str

    def match(self, run_id: str, text: str | None, name: str = "ratings.csv") -> int:
        ratings = None if text is None else read(self.path, text, name)
        return match_ratings(self.lake, RunFolder(self.path / run_id), RUBRIC, (self.shard,), ratings)

    def verdict(self, run_id: str, rubric: Rubric = RUBRIC) -> dict:
        ratings_file = RunFolder(self.path / run_id).ratings_file
        return score_ratings(run_id, rubric.criteria[0], pq.read_table(self.shard), ratings_file).to_pylist()[0]

    def keep(self, run_id: str, text: str, name: str = "ratings.csv") -> None:
        """Match a file and publish its ratings, as a run does."""
        self.match(run_id, text, name)
        folder = RunFolder(self.path / run_id)
        commit(self.lake, "ratings", lambda connection, _version: _insert_ratings(connection, folder))

    def kept(self) -> pa.Table:
        with connect(self.lake, read_only=True) as connection:
            return connection.execute("from ratings order by rowid").to_arrow_table()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    prepare_lake(lake)
    return Place(tmp_path, lake, write_shard(tmp_path, None))


def score(place: Place, text: str) -> dict:
    place.match("r", text)
    return place.verdict("r")


# -------- verdicts
def test_raters_who_agree_give_their_level(place):
    verdict = score(place, HEAD + "c1,m,empathy,a,some\nc1,m,empathy,b,some\n")
    assert (verdict["level_id"], verdict["score"]) == ("some", 0.5)


def test_raters_who_differ_give_their_mean_and_no_level(place):
    verdict = score(place, HEAD + "c1,m,empathy,a,some\nc1,m,empathy,b,clear\n")
    assert (verdict["level_id"], verdict["score"]) == (None, 0.75)  # (0.5 + 1) / 2
    assert verdict["evidence"] == "a: some; b: clear"


def test_without_a_lake_the_ratings_of_the_file_are_matched(place):
    ratings = read(place.path, HEAD + "c1,m,empathy,a,some\n")
    assert match_ratings(None, RunFolder(place.path / "r"), RUBRIC, (place.shard,), ratings) == 0
    assert place.verdict("r")["level_id"] == "some"


def test_an_output_nobody_rated_is_unscored(place):
    verdict = score(place, HEAD + "c2,m,empathy,a,some\n")
    assert (verdict["status"], verdict["reason"], verdict["score"]) == ("unscored", "not_rated", None)


def test_a_rating_that_fits_two_outputs_is_refused_at_its_line(place):
    write_shard(place.path, "1000", "2000")
    with pytest.raises(RatingsError, match=r"ratings.csv:2: c1 of m: found 2 outputs"):
        score(place, HEAD + "c1,m,empathy,a,some\n")


# -------- which of a rater's ratings counts
@pytest.mark.parametrize(
    ("earlier", "later", "counts"),
    [
        ("none,2026-11-01", "clear,2026-11-02", "clear"),
        *matrix(
            [
                ("clear,2026-11-02", "none,2026-11-01", "clear"),
                ("none,2026-11-01", "clear,2026-11-01", "clear"),
                ("none,", "clear,", "clear"),
                ("clear,2026-11-01", "none,", "clear"),  # a rating without a date comes after all that have one
            ]
        ),
    ],
)
def test_the_latest_rating_of_a_file_counts_then_its_later_line(place, earlier, later, counts):
    verdict = score(place, f"{DATED_HEAD}c1,m,empathy,a,{earlier}\nc1,m,empathy,a,{later}\n")
    assert verdict["level_id"] == counts


@pytest.mark.parametrize("stored_at", ["", *matrix(["2026-11-01", "2026-11-03"])])
@pytest.mark.parametrize("given_at", ["", "2026-11-02"])
def test_a_rating_given_now_replaces_the_one_of_the_lake(place, stored_at, given_at):
    place.keep("first", f"{DATED_HEAD}c1,m,empathy,a,none,{stored_at}\n")
    place.match("second", f"{DATED_HEAD}c1,m,empathy,a,clear,{given_at}\n")
    assert place.verdict("second")["level_id"] == "clear"


@pytest.mark.nightly
def test_a_rating_given_now_leaves_the_other_raters_of_the_lake(place):
    place.keep("first", HEAD + "c1,m,empathy,a,none\nc1,m,empathy,b,none\n")
    place.match("second", HEAD + "c1,m,empathy,a,clear\n")
    assert place.verdict("second")["score"] == 0.5  # (1 of the file + 0 of the lake) / 2


def test_without_a_file_the_rating_stored_later_counts(place):
    place.keep("first", HEAD + "c1,m,empathy,a,none\n")
    place.keep("second", HEAD + "c1,m,empathy,a,clear\n")
    place.match("third", None)
    assert place.verdict("third")["level_id"] == "clear"


def test_ratings_of_many_criteria_are_scored_as_each_alone(place):
    """Per-case criteria of one id: each has its own levels and outputs."""
    text = HEAD + "c1,m,empathy,a,some\nc1,m,empathy,b,clear\n"
    place.match("r", text)
    file, shard = RunFolder(place.path / "r").ratings_file, pq.read_table(place.shard)
    criteria = [RUBRIC.criteria[0], NEXT_RUBRIC.criteria[0]]
    rated = [(criterion, shard.column("output_id")) for criterion in criteria]
    found = score_all_ratings("r", [*rated, (RUBRIC.criteria[0], pa.array(["unknown"]))], file)
    assert found.column("score").to_pylist() == [0.75, 0.25, None]  # (0.5 + 1) / 2; 2.0.0 has no level clear
    assert found.slice(0, 2).equals(pa.concat_tables([score_ratings("r", each, shard, file) for each in criteria]))


# -------- the score of a stored rating
def test_a_stored_level_has_the_score_of_the_rubric_of_this_run(place):
    place.keep("first", HEAD + "c1,m,empathy,a,some\n")
    place.match("second", None)
    # stored as 0.5 under 1.0.0; 2.0.0 says some = 0.25
    assert place.verdict("second", NEXT_RUBRIC)["score"] == 0.25


@pytest.mark.nightly
def test_a_stored_level_that_the_criterion_does_not_have_is_left_out(place):
    place.keep("first", HEAD + "c1,m,empathy,a,clear\nc1,m,empathy,b,some\n")
    place.match("second", None)
    assert place.verdict("second", NEXT_RUBRIC)["score"] == 0.25  # of b alone: 2.0.0 has no level clear


@pytest.mark.nightly
def test_a_stored_score_without_a_level_stays_as_it_is(place):
    place.keep("first", SCORE_HEAD + "c1,m,empathy,a,0.5\n")
    place.match("second", None)
    verdict = place.verdict("second", NEXT_RUBRIC)
    assert (verdict["level_id"], verdict["score"]) == (None, 0.5)


# -------- what the lake keeps
def test_the_lake_keeps_a_rating_as_the_file_gives_it(place):
    place.keep("first", HEAD + "c1,m,empathy,a,some\n")
    (row,) = place.kept().to_pylist()
    values = ("o0", "empathy", "a", "some", 0.5, None, None, str(place.path / "ratings.csv"))
    values = (*values, question_digest(RUBRIC.criteria[0]))
    unknown = {
        "selection": None,
        "inclusion_rate": None,
        "spent_s": None,
        "gold_score": None,
        "evidence": None,
    }  # no rating page gave it
    assert row == dict(zip(RATING_SCHEMA.names, values, strict=True)) | unknown


@pytest.mark.parametrize("rated_at", ["", *matrix(["2026-11-01"])])
def test_the_same_rating_from_another_path_is_stored_once(place, rated_at):
    text = f"{DATED_HEAD}c1,m,empathy,a,some,{rated_at}\n"
    place.keep("first", text, "ratings.csv")
    place.keep("second", text, "copy.csv")
    assert [Path(source).name for source in place.kept()["source"].to_pylist()] == ["ratings.csv"]


def test_a_rating_repeated_in_a_file_is_stored_once(place):
    place.keep("first", HEAD + "c1,m,empathy,a,some\n" * 3)
    assert place.kept().num_rows == 1


@pytest.mark.nightly
def test_another_rating_of_the_same_rater_is_stored_beside_the_first(place):
    place.keep("first", HEAD + "c1,m,empathy,a,none\n")
    place.keep("second", HEAD + "c1,m,empathy,a,clear\n")
    assert place.kept()["level_id"].to_pylist() == ["none", "clear"]


# -------- a run that goes on
def test_a_resumed_run_keeps_the_ratings_it_began_with(place):
    place.match("r", None)
    place.keep("other", HEAD + "c1,m,empathy,a,clear\n")
    place.match("r", None)
    assert place.verdict("r")["status"] == "unscored"  # nobody had rated when the run began


def test_a_resumed_run_tells_the_same_count_of_unmatched_ratings(place):
    text = HEAD + "c1,m,empathy,a,some\nc2,m,empathy,a,some\nc3,m,empathy,a,some\n"
    # c2 and c3 are no cases of the shard: 3 - 1 = 2
    assert [place.match("r", text), place.match("r", text)] == [2, 2]


# -------- reading
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("c1,m,empathy,a,huge", "level_id: found 'huge', expected one of none, some, clear"),
        ("c1,m,sympathy,a,some", "criterion_id: found 'sympathy', expected one of empathy"),
        ("c1,m,empathy,a,", "found a level_id and a score, or neither; expected one of them"),
        (",m,empathy,a,some", 'case_id: found "", expected: '),
    ],
)
def test_a_rating_that_does_not_fit_is_told_with_its_line(tmp_path, line, words):
    with pytest.raises(RatingsError) as raised:
        read(tmp_path, HEAD + "c1,m,empathy,a,some\n" + line + "\n")
    assert str(raised.value).startswith(f"{tmp_path}/ratings.csv:3: {words}")


def test_a_time_beyond_the_years_of_utc_is_refused(tmp_path):
    with pytest.raises(
        RatingsError, match="3: rated_at: found 0001-01-01T00:00:00.14:00, expected a time from the year 1"
    ):
        read(tmp_path, DATED_HEAD + "c1,m,empathy,a,some,\nc1,m,empathy,b,some,0001-01-01T00:00:00+14:00\n")


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(RatingsError, match="expected rater among them"):
        read(tmp_path, "case_id,model,criterion_id,level_id\nc1,m,empathy,some\n")


def test_a_file_without_ratings_is_refused(tmp_path):
    with pytest.raises(RatingsError, match="found no ratings"):
        read(tmp_path, HEAD)

"""A rating belongs to the text that was rated: it counts in runs that ask with this text, and is offered to others."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.agreement.mart import add_ratings_of_run
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.offered import find_offered, take_ratings
from tests.support.new_lakes import write_copy
from tests.support.scored_lake import make_lake, write_runs

TEXT = """
id: {id}
version: 1.0.0
criteria:
  - id: tone
    description: {asks}
    weight: {weight}
    method: {method}
    levels: [{{id: bad, score: 0}}, {{id: good, score: 1}}]
"""


def rubric(rubric_id: str, asks: str, weight: int = 1, method: str = "{type: ratings}") -> Rubric:
    return parse_rubric(TEXT.format(id=rubric_id, asks=asks, weight=weight, method=method), "rubric.yaml")


KIND = rubric("kind", "Is it kind?")
JUDGED = rubric("judged", "Is it kind?", weight=2, method="{type: judge, prefer: human}")  # the same text
FORMAL = rubric("formal", "Is it formal?")
RUNS = {"kind-1": KIND, "judged-1": JUDGED, "formal-1": FORMAL}
DIGESTS = {"kind": question_digest(KIND.criteria[0]), "formal": question_digest(FORMAL.criteria[0]), "unknown": None}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three runs of one output: two rubrics ask whether it is kind, one whether it is formal."""
    write_copy(tmp_path, _publish_runs)
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def _publish_runs(folder: Path) -> None:
    made = make_lake(folder)
    output = {"case_id": "c1", "output_id": "o1", "scores": {"tone": None}}
    write_runs(made, {run_id: (each, [output]) for run_id, each in RUNS.items()})
    once = "delete from outputs where rowid > (select min(rowid) from outputs)"
    commit(made, "an output is stored once", lambda connection, _version: connection.execute(once))


def rate(lake: Lake, text: str, level: str = "good", rater: str = "anna", source: str = "file", at: int = 1) -> None:
    row = [
        "o1",
        rater,
        level,
        {"bad": 0.0, "good": 1.0}[level],
        source,
        DIGESTS[text],
        datetime(2026, 11, at, tzinfo=UTC),
    ]
    insert = (
        "insert into ratings by name select ? as output_id, 'tone' as criterion_id, ? as rater, ? as level_id, "
        "? as score, ? as source, ? as question_digest, ? as rated_at"
    )
    commit(lake, "rate", lambda connection, _version: connection.execute(insert, row))


def counted_in(lake: Lake, run_id: str) -> list[float]:
    with connect(lake, read_only=True) as connection:
        add_ratings_of_run(connection, run_id)
        return [score for (score,) in connection.execute("select score from latest_ratings").fetchall()]


@pytest.mark.parametrize(
    ("text", "runs"),
    [("kind", ["kind-1", "judged-1"]), ("formal", ["formal-1"]), ("unknown", ["kind-1", "judged-1", "formal-1"])],
)
def test_a_rating_counts_and_is_exported_where_its_text_is_asked_and_offered_elsewhere(lake, text, runs):
    rate(lake, text)
    assert [run_id for run_id in RUNS if counted_in(lake, run_id)] == runs
    assert [run_id for run_id in RUNS if find_offered(lake, run_id) is None] == runs
    for run_id in RUNS:
        if run_id in runs:
            assert [row["level_id"] for row in exported_ratings(lake, run_id, "jsonl")] == ["good"]
        else:
            with pytest.raises(InputError, match=f"ratings take {run_id}"):
                exported_ratings(lake, run_id, "jsonl")


def test_a_rating_that_is_taken_counts_once_and_the_one_that_was_given_stays(lake):
    rate(lake, "kind", "bad", at=1)
    rate(lake, "kind", "good", at=2)
    assert take_ratings(lake, "formal-1", is_dry=True).version is None
    assert take_ratings(lake, "formal-1").counts == {"tone": 1}
    assert take_ratings(lake, "formal-1").counts == {}
    assert [counted_in(lake, run_id) for run_id in RUNS] == [[1.0]] * 3
    rate(lake, "formal", "bad", at=3)  # under this text alone
    assert [counted_in(lake, run_id) for run_id in RUNS] == [[1.0], [1.0], [0.0]]


def test_an_export_of_a_run_is_imported_whole(lake, tmp_path):
    rate(lake, "kind")
    rate(lake, "formal", "bad", rater="ben")
    rows = exported_ratings(lake, "formal-1", "jsonl")
    (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    imported = import_ratings(lake, FORMAL, RatingFile(tmp_path / "ratings.jsonl"))
    assert (imported.rating_count, imported.new_count, imported.bad_count) == (1, 0, 0)


def test_ratings_of_an_earlier_gradebook_have_the_text_of_their_page_or_the_only_one_of_the_output(lake):
    other = {"case_id": "c2", "output_id": "o2", "scores": {"tone": None}}
    write_runs(lake, {"kind-2": (KIND, [other])})
    rate(lake, "unknown", rater="page", source="rating page, run formal-1")
    rate(lake, "unknown", rater="of several")
    rate(lake, "unknown", rater="of one")

    def age(connection, _version):
        connection.execute("update ratings set output_id = 'o2' where rater = 'of one'")
        connection.execute("alter table ratings drop column question_digest")

    commit(lake, "as an earlier gradebook", age)
    with connect_up_to_date(lake) as connection:
        found = dict(connection.execute("select rater, question_digest from ratings").fetchall())
    assert found == {"page": DIGESTS["formal"], "of several": None, "of one": DIGESTS["kind"]}

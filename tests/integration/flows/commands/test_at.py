"""`--at`: commands that read a lake of an earlier time."""

import json
from pathlib import Path

import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.connections import commit
from tests.support.nightly import matrix
from tests.support.scored_lake import make_lake, write_scores

LEVELS = [{"id": "bad", "score": 0, "description": "x"}, {"id": "good", "score": 1, "description": "x"}]
RUBRIC = Rubric.model_validate(
    {
        "id": "r",
        "version": "1.0.0",
        "criteria": [{"id": "tone", "description": "?", "method": {"type": "ratings"}, "levels": LEVELS}],
    }
)
RATE = """
insert into ratings by name
select output_id, 'tone' as criterion_id, unnest(['ann', 'bob']) as rater, 'good' as level_id, 1.0 as score
from output_scores where run_id = 'b'
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Runs a, b and c, published one after the other, then ratings of b; the option that names the lake."""
    found = make_lake(Path(tmp_path_factory.mktemp("lake")))
    for name, score in (("a", 0.0), ("b", 1.0), ("c", 1.0)):
        rows = [{"case_id": f"c{case}", "scores": {"tone": score if case else 0.5}} for case in range(12)]
        write_scores(found, name, RUBRIC, rows)
    commit(found, "import ratings of sheet.csv", lambda connection, _: connection.execute(RATE) and None)
    return f"--lake=sqlite:{found.address}"


@pytest.mark.parametrize("at", ["a", *matrix(["2"])])
def test_sql_reads_the_lake_of_that_time(gradebook, lake, at):
    finished = gradebook("sql", "select run_id from run_scores", "--at", at, "--format", "json", lake)
    assert json.loads(finished.out) == [{"run_id": "a"}]


def test_the_runs_up_to_one_are_listed(gradebook, lake):
    listed = gradebook("runs", "--at", "b", "--json", lake).json["runs"]
    assert sorted(row["run_id"] for row in listed) == ["a", "b"]


@pytest.mark.nightly
def test_a_comparison_at_an_earlier_version_is_the_same(gradebook, lake):
    then, now = (gradebook("compare", "a", "b", *at, "--json", lake) for at in (("--at", "b"), ()))
    assert (then.code, then.json) == (0, now.json)


@pytest.mark.parametrize(("at", "pair_count"), [("c", 0), ("5", 12)])
def test_agreement_counts_the_ratings_of_that_time(gradebook, lake, at, pair_count):
    found = gradebook("people", "agreement", "b", "--at", at, "--json", lake).json["agreement"]
    # ann and bob on each of 12 outputs
    assert sum(part["pair_count"] for part in found if part["kind"] == "raters" and part["rater"] is None) == pair_count


@pytest.mark.parametrize(("at", "count"), [("c", 0), ("5", 2)])
def test_ratings_are_those_of_that_time(gradebook, lake, at, count):
    assert len(gradebook("people", "ratings", "list", "--at", at, "--json", lake).json["ratings"]) == count


@pytest.mark.parametrize(
    "words", [("compare", "a", "c"), ("report", "c"), ("people", "calibrate", "c"), ("people", "agreement", "c")]
)
def test_a_later_run_is_unknown(gradebook, lake, words):
    finished = gradebook(*words, "--at", "b", lake)
    assert (finished.code, finished.out) == (2, "")
    assert "run c: found no such run" in finished.err or "found no 'c'" in finished.err


def test_a_text_that_names_no_version_is_refused(gradebook, lake):
    finished = gradebook("sql", "from runs", "--at", "yesterday", lake)
    assert (finished.code, finished.out) == (2, "")
    assert "--at: found 'yesterday', expected a version, the id of a published run or a time" in finished.err


def test_a_version_before_the_tables_is_reported(gradebook, lake):
    finished = gradebook("compare", "a", "b", "--at", "0", lake)
    assert finished.code == 2
    assert "--at: found version 0, made before the lake had runs, outputs" in finished.err

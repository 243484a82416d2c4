"""A judged criterion that prefers people: rated outputs are scored by their ratings, and no judge is paid."""

import csv
from pathlib import Path

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import prepare_lake
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import RUBRIC, write_outputs

HEAD = ("case_id", "model", "criterion_id", "rater", "level_id")


@pytest.fixture
def words(tmp_path: Path) -> tuple[str | Path, ...]:
    """Words for four outputs, a rating of one of them, and a rubric that prefers ratings."""
    outputs = write_outputs(tmp_path / "outputs.jsonl", count=2)
    rubric, ratings = tmp_path / "rubric.yaml", tmp_path / "ratings.csv"
    rubric.write_text(RUBRIC.format(version="1.0.0", weight=1).replace("{type: judge}", "{type: judge, prefer: human}"))
    with ratings.open("w", newline="") as file:
        csv.writer(file).writerows([HEAD, ("c1", "small", "clarity", "anna", "unclear")])
    return outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--ratings", ratings


@pytest.mark.nightly
def test_the_judge_scores_only_unrated_outputs(evaluate, gradebook, judge: LoopbackJudge, words):
    done = evaluate(*words)
    assert done.code in (0, 1), done.err
    query = "select case_id, model, method, level_id from verdicts join outputs using (output_id) "
    query += "where criterion_id = 'clarity' order by all"
    rows = gradebook("sql", query, "--format", "json").json
    assert [row["method"] for row in rows] == ["judge", "judge", "judge", "ratings"]
    assert (rows[3]["case_id"], rows[3]["level_id"]) == ("c1", "unclear")
    (ledger,) = gradebook("sql", "select count(*) as asked from judgments", "--format", "json").json
    assert ledger == {"asked": 3}  # four outputs, one rated


def test_a_dry_run_leaves_the_rated_outputs_out(gradebook, judge: LoopbackJudge, words, tmp_path):
    prepare_lake(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"))
    assert gradebook("evaluate", *words, "--dry-run", "--json").json["request_count"] == 3


def test_a_dry_run_before_the_first_evaluation_leaves_the_rated_outputs_out(gradebook, judge: LoopbackJudge, words):
    assert gradebook("evaluate", *words, "--dry-run", "--json").json["request_count"] == 3

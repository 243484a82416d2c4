"""Whose verdict counts on a judged criterion that prefers people."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA, verdict_table
from gradebook.tasks.methods.judge import score_preferred
from gradebook.tasks.ratings.run_ratings import MATCHED_SCHEMA, prefers_people, rated_outputs

LEVELS = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]
RATED = {"criterion_id": "tone", "rater": "a", "source": "f", "is_from_file": True, "line": 1}


def criterion(prefer: str | None = "human", kind: str = "judge") -> Criterion:
    method = {"type": kind} | ({"prefer": prefer} if prefer else {})
    return Criterion.model_validate({"id": "tone", "description": "Kind?", "method": method, "levels": LEVELS})


@pytest.fixture
def ratings_file(tmp_path: Path) -> Path:
    rows = [RATED | {"output_id": output, "level_id": "good", "score": 1.0} for output in ("o1", "o3")]
    pq.write_table(pa.Table.from_pylist(rows, schema=MATCHED_SCHEMA), tmp_path / "ratings.parquet")
    return tmp_path / "ratings.parquet"


def judge(output_ids: pa.ChunkedArray) -> pa.Table:
    """Finds everything bad."""
    count = len(output_ids)
    return verdict_table("r", criterion(), output_ids, pa.repeat("bad", count), pa.repeat(0.0, count))


def refuse(_output_ids: pa.ChunkedArray) -> pa.Table:
    raise AssertionError("the judge was asked")


def scored(ratings_file: Path, *output_ids: str, others=judge) -> list[tuple[str, str, str]]:
    verdicts = score_preferred("r", criterion(), pa.chunked_array([list(output_ids)]), ratings_file, others)
    assert verdicts.schema.equals(VERDICT_SCHEMA)
    return [(row["output_id"], row["method"], row["level_id"]) for row in verdicts.to_pylist()]


def test_people_score_what_they_rated_and_the_judge_the_rest_in_the_outputs_order(ratings_file):
    assert scored(ratings_file, "o4", "o3", "o2", "o1") == [
        ("o4", "judge", "bad"),
        ("o3", "ratings", "good"),
        ("o2", "judge", "bad"),
        ("o1", "ratings", "good"),
    ]


def test_no_judge_is_asked_where_all_are_rated(ratings_file):
    assert [method for _, method, _ in scored(ratings_file, "o1", "o3", others=refuse)] == ["ratings", "ratings"]


def test_the_judge_scores_all_where_the_run_has_no_ratings(tmp_path):
    assert scored(tmp_path / "none.parquet", "o1") == [("o1", "judge", "bad")]


def test_the_outputs_that_people_score_are_left_out_of_the_plan(ratings_file):
    assert rated_outputs(criterion(), ["o1", "o2"], ratings_file) == {"o1"}


def test_a_rating_of_a_level_that_is_gone_leaves_the_output_to_the_judge(ratings_file):
    levels = [{"id": "bad", "score": 0}, {"id": "fine", "score": 1}]
    changed = Criterion.model_validate(criterion().model_dump() | {"levels": levels})
    assert rated_outputs(changed, ["o1"], ratings_file) == frozenset()


@pytest.mark.parametrize(("prefer", "kind"), [(None, "judge"), ("judge", "judge"), (None, "ratings")])
def test_no_other_criterion_prefers_people(ratings_file, prefer, kind):
    assert not prefers_people(criterion(prefer, kind))
    assert rated_outputs(criterion(prefer, kind), ["o1"], ratings_file) == frozenset()

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.checks.grading import grade_outputs
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.methods.check import CheckScoring, SchemaScoring
from gradebook.tasks.methods.method import ShardCache
from tests.support.scored_rows import score_rows

LEVELS = [{"id": "good", "score": 0.9}, {"id": "bad", "score": 0.1}, {"id": "middling", "score": 0.5}]
SHARD = pa.table(
    {
        "output_id": ["a", "b", "c"],
        "output": ["one", "one two three", "{}"],
        "reference": pa.array(["one", None, "x"], pa.string()),
    }
)
LENGTH = {"type": "check", "check": "length_words", "settings": {"max": 2}}
SCHEMA = {"type": "schema", "schema": {"type": "object"}}


def criterion(method: dict[str, object], **settings: object) -> Criterion:
    return Criterion.model_validate({"id": "shape", "description": "Is it so?", "method": method, **settings})


def test_without_levels_a_pass_is_one_and_a_fail_is_nought():
    verdicts = score_rows(criterion(LENGTH), SHARD)
    assert verdicts.select(["output_id", "level_id", "score", "status"]).to_pydict() == {
        "output_id": ["a", "b", "c"],
        "level_id": ["pass", "fail", "pass"],
        "score": [1.0, 0.0, 1.0],
        "status": ["scored"] * 3,
    }


def test_a_pass_is_the_highest_level_and_a_fail_the_lowest():
    verdicts = score_rows(criterion(LENGTH, levels=LEVELS), SHARD)
    assert verdicts["level_id"].to_pylist() == ["good", "bad", "good"]
    assert verdicts["score"].to_pylist() == [0.9, 0.1, 0.9]


def test_the_evidence_of_a_fail_is_the_count_against_the_bound():
    evidence = score_rows(criterion(LENGTH), SHARD)["evidence"].to_pylist()
    assert evidence == [None, "3 words, at most 2 allowed", None]


def test_what_a_check_cannot_tell_is_unscored_with_its_reason():
    verdicts = score_rows(criterion({"type": "check", "check": "matches_reference"}), SHARD)
    assert verdicts.select(["status", "level_id", "score", "reason"]).to_pydict() == {
        "status": ["scored", "unscored", "scored"],
        "level_id": ["pass", None, "fail"],
        "score": [1.0, None, 0.0],
        "reason": [None, "no reference", None],
    }


def test_verdicts_bear_the_run_the_criterion_and_the_method():
    verdicts = score_rows(criterion(LENGTH), SHARD)
    assert verdicts.schema == VERDICT_SCHEMA
    assert verdicts.select(["run_id", "criterion_id", "method", "is_replayed"]).to_pylist()[0] == {
        "run_id": "run",
        "criterion_id": "shape",
        "method": "check",
        "is_replayed": False,
    }


def test_a_schema_scores_as_a_check_does():
    verdicts = score_rows(criterion(SCHEMA, levels=LEVELS), SHARD)
    assert verdicts["level_id"].to_pylist() == ["bad", "bad", "good"]
    assert verdicts["method"].to_pylist() == ["schema"] * 3
    assert verdicts["evidence"].to_pylist()[0] == "not JSON: line 1 column 1: Expecting value"


@pytest.mark.parametrize("method", [LENGTH, SCHEMA], ids=["check", "schema"])
def test_an_empty_shard_has_no_verdicts(method):
    assert score_rows(criterion(method), SHARD.slice(0, 0)).num_rows == 0


def test_a_sliced_shard_scores_its_own_rows():
    assert score_rows(criterion(LENGTH), SHARD.slice(1))["level_id"].to_pylist() == ["fail", "pass"]


@pytest.mark.parametrize(("scoring", "method"), [(CheckScoring(), SCHEMA), (SchemaScoring(), LENGTH)])
def test_a_criterion_of_another_method_is_refused(scoring, method):
    with pytest.raises(TypeError, match=r"shape: found the method (schema|check), expected (schema|check)"):
        scoring.outcomes(criterion(method), {})


def test_an_unknown_check_offers_the_nearest():
    with pytest.raises(KeyError, match="length_words"):
        score_rows(criterion({"type": "check", "check": "length_word"}), SHARD)


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="most"):
        score_rows(criterion({**LENGTH, "settings": {"most": 2}}), SHARD)


def test_a_check_that_grades_gives_the_level_that_it_names():
    levels = [{"id": "bad", "score": 0}, {"id": "fair", "score": 0.5}, {"id": "good", "score": 1}]
    graded = criterion(LENGTH, levels=levels)
    found = CheckVerdicts(
        pa.array([True, False, True, None]),
        pa.nulls(4, pa.string()),
        pa.array([None, None, None, "no reference"]),
        pa.array(["fair", None, None, None]),
    )
    verdicts = grade_outputs("run", graded, pa.array(["a", "b", "c", "d"]), found)
    assert verdicts["level_id"].to_pylist() == ["fair", "bad", "good", None]
    assert verdicts["score"].to_pylist() == [0.5, 0.0, 1.0, None]
    assert verdicts["reason"].to_pylist() == [None, None, None, "no reference"]


def test_a_column_of_a_shard_is_read_once(tmp_path):
    path = tmp_path / "shard.parquet"
    pq.write_table(SHARD, path)
    shards = ShardCache()
    both = shards.read(str(path), ["output_id", "output"])
    all_three = shards.read(str(path), ["output_id", "reference", "output"])
    path.unlink()
    assert shards.read(str(path), ["output_id", "output"]).equals(both)
    assert all_three.equals(SHARD.select(["output_id", "reference", "output"]))


def test_the_shard_used_longest_ago_is_read_anew(tmp_path):
    paths = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"output_id": [f"o{number}"]}), path)
    shards = ShardCache(2)
    for number in (0, 1, 0, 2):
        assert shards.read(paths[number], ["output_id"])["output_id"].to_pylist() == [f"o{number}"]
    for path in paths:
        Path(path).unlink()
    assert shards.read(paths[0], ["output_id"])["output_id"].to_pylist() == ["o0"]
    with pytest.raises(FileNotFoundError):
        shards.read(paths[1], ["output_id"])

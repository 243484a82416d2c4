"""Inspect's scores as ratings of the outputs that a run reads from the log."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.inspect_scores import read_inspect_scores
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "inspect-scores.json"


def log(*scores: Any) -> str:
    samples = [{"id": number, "scores": each} for number, each in enumerate(scores, start=1)]
    return json.dumps({"eval": {"task": "sums", "model": "openai/m"}, "samples": samples})


def test_scores_are_ratings_of_the_case_model_and_sample_that_a_run_reads():
    imported = read_inspect_scores(EXAMPLE.read_text(encoding="utf-8"), "log.json")
    assert imported.cases == ()
    columns = ("case_id", "model", "sample_index", "criterion_id", "rater", "score", "notes")
    assert [tuple(row.get(name) for name in columns) for row in imported.ratings] == [
        ("sums/1", "openai/m", 0, "match", "inspect", 1.0, "4"),
        ("sums/1", "openai/m", 0, "rubric_tone", "inspect", 0.5, None),
        ("sums/1", "openai/m", 1, "match", "inspect", 0.0, None),
        ("sums/1", "openai/m", 1, "rubric_tone", "inspect", 1.0, None),
    ]
    assert imported.kept == ("rubric.length (no score from 0 to 1)",)


@law_over(
    ("value", "score"),
    [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), ("yes", 1.0), (True, 1.0), (0.25, 0.25), (float("nan"), None)],
)
def test_a_value_is_the_score_that_inspect_makes_of_it(value: Any, score: float | None):
    ratings = read_inspect_scores(log({"m": {"value": value}}, {"m": {"value": 1}}), "log.json").ratings
    assert [row["score"] for row in ratings] == ([1.0] if score is None else [score, 1.0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (log({}), "samples: found no scores, expected some"),
        ('{"samples": []}', "found no 'eval', expected one"),
        ('{"eval": {}, "samples": [{"scores": {}}]}', "samples[0]: found no 'id'"),
    ],
)
def test_another_file_is_refused(text: str, words: str):
    with pytest.raises(RubricError) as caught:
        read_inspect_scores(text, "log.json")
    assert words in str(caught.value)

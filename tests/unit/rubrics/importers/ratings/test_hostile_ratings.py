"""Rows of ratings with strange values in them: a sheet or a reason comes out, and nothing else."""

import contextlib
import random
from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.ratings.grading import Grader, scales_of_rubric
from gradebook.rubrics.importers.ratings.registry import READERS, guess_format
from gradebook.rubrics.importers.ratings.sheets import LeftOut, Misfit, Naming
from gradebook.rubrics.model.json_values import Row
from tests.support.law_over import law_over

RUBRIC = """
id: rated
version: 1.0.0
criteria:
  - {id: tone, description: D, method: {type: judge}, levels: [{id: bad, score: 0}, {id: good, score: 1, label: Great}]}
  - {id: clarity, description: D, method: {type: ratings}, scale: {min: 1, max: 5}}
  - {id: trajectory, description: D, method: {type: ratings}, scale: {min: 1, max: 5}}
overall: {scale: {min: 1, max: 5}}
"""
SCALES = scales_of_rubric(parse_rubric(RUBRIC, "rubric.yaml"))
NAMING = Naming(is_criterion=lambda name: SCALES.find(name) is not None)
WHO = {"trace_id": "t", "annotator": "a", "timestamp": "2026-11-01"}
RESULTS = [
    {"from_name": "tone", "type": "choices", "value": {"choices": ["good"]}},
    {"from_name": "words", "type": "textarea", "value": {"text": ["kind"]}},
]
RATING = {"id": "rubric_0_criteria_0_rating", "value": "no_issues"}
RESPONSE = {"role": "assistant", "source_id": "m", "content": {"text": "a"}, "annotations": [RATING]}
TURN = {"messages": [RESPONSE], "annotations": [{"key": "rubric_0_criteria_0", "title": "T", "value": "objective"}]}
ROWS: dict[str, Row] = {
    "trace": WHO | {"rubric": {"criteria_ratings": {"tone": "good", "clarity": 3}, "overall": 3, "notes": "x"}},
    "potato": WHO | {"quality": {"tone": "good", "notes": "s"}},
    "label-studio": {"data": {"case_id": "c"}, "annotations": [{"completed_by": {"id": 1}, "result": RESULTS}]},
    "trajectory": WHO | {"annotations": [{"step": 1, "error_type": "e", "severity": "minor"}]},
    "wide": {"case_id": "c", "rater": "a", "tone": "good", "tone_notes": "x", "sample_index": "1"},
    "long": {"case_id": "c", "rater": "a", "criterion": "tone", "rating": "good", "level_id": None},
    "scale": {"task_id": "t", "threads": [{"turns": [TURN]}]},
}
STRANGE = [None, True, 0, -1, 10**200, 1e308, 0.5, "", "4", "n/a", "x" * 2000, "\x00", "\u202e", [], {}, [[1]]]
STRANGE += [{"rating": 4}, {"rating": 4, "value": 3}, {"choices": ["good", "bad"]}, ["good"], {"text": 1}]


def mutated(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return rng.choice(STRANGE)
    if isinstance(value, dict):
        return {name: mutated(each, rng) for name, each in value.items() if rng.random() > 0.05}
    return [mutated(each, rng) for each in value] if isinstance(value, list) else value


def scores_of(row: Row, form: str) -> list[float]:
    """The scores of a row's marks. Raises `Misfit`."""
    grader = Grader()
    marks = [mark for sheet in READERS[form](row, NAMING, LeftOut()) for mark in sheet.marks]
    ladders = [SCALES.ladder_of(mark) for mark in marks]
    for mark, ladder in zip(marks, ladders, strict=True):
        grader.show(mark, ladder)
    rated = [grader.grade(mark, ladder, SCALES) for mark, ladder in zip(marks, ladders, strict=True)]
    return [each.score for each in rated if each is not None]


@law_over("name", [name for name in ROWS if name != "scale"])
def test_the_row_that_is_mutated_is_right(name):
    assert scores_of(ROWS[name], guess_format(ROWS[name], NAMING))


@law_over("form", READERS)
@law_over("name", ROWS)
def test_any_row_gives_scores_or_a_reason(name, form):
    rng = random.Random(f"{name} {form}")  # noqa: S311 - drawn rows, no secret
    for _ in range(60):
        row = {key: mutated(value, rng) for key, value in ROWS[name].items()}
        with contextlib.suppress(Misfit):
            assert all(0 <= score <= 1 for score in scores_of(row, form))


def test_a_null_character_is_refused_in_a_name_and_taken_out_of_notes():
    for column in ("case_id", "rater"):
        with pytest.raises(Misfit, match=f"{column}: found a null character, expected none in a name"):
            scores_of(ROWS["wide"] | {column: "a\0b"}, "csv")
    (sheet,) = READERS["csv"](ROWS["wide"] | {"tone_notes": "a\0b"}, NAMING, LeftOut())
    assert [mark.notes for mark in sheet.marks] == ["ab"]

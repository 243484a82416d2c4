"""Criteria of the method `similarity` in a real run, without a judge."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: like
version: 1.0.0
missing: skip
criteria:
  - id: like_the_reference
    description: Is it worded as the reference?
    weight: 1
    method: {{type: similarity{settings}}}
"""
TOPICS = ("the shop opens on sunday", "returns take sixty days", "parking costs two euros", "dogs must wait outside")
WORDS = (*TOPICS, "lunch is served at noon", "the museum is closed", "bring your own towel")
ROWS = [{"case_id": f"c{n}", "model": "m", "output": text, "reference": text} for n, text in enumerate(WORDS)]


def evaluated(folder: Path, rows: list[dict[str, Any]], settings: str = "") -> Any:
    rubric = folder / "rubric.yaml"
    rubric.write_text(RUBRIC.format(settings=settings), encoding="utf-8")
    return publish(write_lines(folder / "outputs.jsonl", rows), rubric)


def rows_in(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with connect(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def verdicts_in(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Score, reason and rationale by case."""
    rows = rows_in(
        folder, "select case_id, verdicts.score, reason, rationale from verdicts join outputs using (output_id)"
    )
    return {case: tuple(rest) for case, *rest in rows}


@pytest.mark.nightly
def test_scores_lie_between_other_cases_and_the_same_text(tmp_path: Path):
    rows = [
        *ROWS,
        {"case_id": "x", "model": "m", "output": "dogs wait outside the shop", "reference": "cats|dogs wait outside"},
        {"case_id": "other", "model": "m", "output": WORDS[0], "reference": "nothing of the kind"},
        {"case_id": "no_text", "model": "m", "output": " ", "reference": "cats"},
        {"case_id": "blank", "model": "m", "output": "cats", "reference": " | "},
        {"case_id": "none", "model": "m", "output": "cats"},
    ]
    run = evaluated(tmp_path, rows, ", separator: '|'")
    found = verdicts_in(tmp_path)
    assert [found[f"c{n}"][0] for n in range(len(WORDS))] == pytest.approx([1.0] * len(WORDS))
    assert (found["other"][0], found["no_text"][0]) == (0.0, 0.0)
    assert 0.3 < found["x"][0] < 0.9
    assert found["blank"][:2] == found["none"][:2] == (None, "no_reference: nothing to compare with")
    kept = rows_in(
        tmp_path,
        "select similarity, null_similarity, other_case_count, score from similarities "
        "join verdicts using (run_id, output_id, criterion_id) where score between 0.01 and 0.99",
    )
    ((own, null, count, score),) = kept
    assert score == pytest.approx((own - null) / (1 - null))
    assert count == len(WORDS) + 2
    assert found["x"][2] == f"similarity {own:.3f} to its reference, {null:.3f} on average to those of 9 other cases"
    assert any(note.startswith("like_the_reference: mean similarity 0.") for note in run.run["notes"])


@pytest.mark.nightly
def test_with_few_other_cases_only_the_similarity_itself_is_a_score(tmp_path: Path):
    evaluated(tmp_path, ROWS[:3])
    reason = "too_few_cases: found 2 others to compare with, expected 5"
    assert {verdict[:2] for verdict in verdicts_in(tmp_path).values()} == {(None, reason)}


@pytest.mark.nightly
def test_the_similarity_itself_needs_no_other_case(tmp_path: Path):
    evaluated(tmp_path, ROWS[:1], ", is_rescaled: false")
    ((score, _, rationale),) = verdicts_in(tmp_path).values()
    assert score == pytest.approx(1)
    assert rationale == "similarity 1.000 to its reference; no other case"


@pytest.mark.nightly
def test_where_all_references_are_equal_nothing_is_rescaled(tmp_path: Path):
    evaluated(tmp_path, [{**row, "reference": "yes"} for row in ROWS])
    assert {verdict[:2] for verdict in verdicts_in(tmp_path).values()} == {(0.0, None)}
    evaluated_again = tmp_path / "same"
    evaluated_again.mkdir()
    evaluated(evaluated_again, [{**row, "output": "yes", "reference": "yes"} for row in ROWS])
    found = {verdict[:2] for verdict in verdicts_in(evaluated_again).values()}
    assert found == {(None, "no_contrast: the reference is the same in all cases")}


@pytest.mark.nightly
def test_the_most_similar_passage_and_message_count(tmp_path: Path):
    rows = [
        {
            **row,
            "context": ["quite another text", row["output"]],
            "prompt": [{"role": "user", "content": row["output"]}],
        }
        for row in ROWS
    ]
    for column in ("context", "prompt"):
        folder = tmp_path / column
        folder.mkdir()
        evaluated(folder, rows, f", against: {column}")
        assert [verdict[0] for verdict in verdicts_in(folder).values()] == pytest.approx([1.0] * len(rows))

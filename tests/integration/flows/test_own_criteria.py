"""`gradebook evaluate` with per-case criteria: alone, and in addition to a rubric's."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import query, write_rubric

BRIEF: dict[str, Any] = {
    "id": "brief",
    "description": "At most 3 words.",
    "method": {"type": "check", "check": "length_words", "settings": {"max": 3}},
}
KIND: dict[str, Any] = {"id": "kind", "description": "Is it kind?", "method": {"type": "judge"}}
RATED: dict[str, Any] = {
    "id": "liked",
    "description": "Did a person like it?",
    "method": {"type": "ratings"},
    "levels": [{"id": "no", "score": 0}, {"id": "some", "score": 0.5}, {"id": "yes", "score": 1}],
}


def write_rows(path: Path, *criteria: list[dict[str, Any]] | None) -> Path:
    """Write a case for each list of criteria; the output of case n has n + 2 words."""
    rows = [
        {"case_id": f"c{n}", "model": "m", "output": " ".join(["word"] * (n + 2)), "criteria": own}
        for n, own in enumerate(criteria)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.nightly
def test_rows_are_scored_by_their_per_case_criteria_only(evaluate, gradebook, tmp_path):
    finished = evaluate(write_rows(tmp_path / "o.jsonl", [BRIEF], [BRIEF], [BRIEF]), "--rubric", "none")
    assert finished.code == 0, finished.err
    rows = query(gradebook, "select case_id, score from output_scores order by case_id")
    assert [row["score"] for row in rows] == [1, 1, 0]  # 2, 3 and 4 words


def test_per_case_criteria_are_combined_with_the_rubric_s(evaluate, gradebook, tmp_path):
    outputs = write_rows(tmp_path / "o.jsonl", [BRIEF | {"weight": 3}], [BRIEF | {"gate": True}], None)
    rubric = write_rubric(tmp_path / "rubric.yaml")
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "replay:" + str(no_replies(tmp_path)))
    rows = query(gradebook, "select score_low, score_high, failed_gates from output_scores order by case_id")
    # length passes (1), clarity is unscored (1); per-case: 3 of 5, then a gate, then none
    assert [(row["score_low"], row["score_high"]) for row in rows] == [(0.8, 1), (0.5, 1), (0.5, 1)]
    assert "2 outputs with per-case criteria, 2 in total" in finished.json["notes"]


def no_replies(folder: Path) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("", encoding="utf-8")
    return path


@pytest.mark.nightly
def test_a_failed_per_case_gate_fails_only_its_output(evaluate, gradebook, tmp_path):
    outputs = write_rows(tmp_path / "o.jsonl", *[[BRIEF | {"gate": True}]] * 3)
    assert evaluate(outputs, "--rubric", "none").code == 1
    rows = query(gradebook, "select is_passed, failed_gates from output_scores order by case_id")
    assert [row["is_passed"] for row in rows] == [True, True, False]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_judge_is_asked_once_for_each_per_case_criterion(evaluate, gradebook, judge, tmp_path):
    outputs = write_rows(tmp_path / "o.jsonl", [KIND], [KIND, BRIEF], [BRIEF])
    evaluate(outputs, "--rubric", "none", "--judge", "gpt-4o-mini")
    assert judge.request_count == 2
    evaluate(outputs, "--rubric", "none", "--judge", "gpt-4o-mini")
    assert judge.request_count == 2
    (row,) = query(gradebook, "select count(*) as n from judgments where criterion_id = 'kind' and status = 'scored'")
    assert row["n"] == 2


@pytest.mark.nightly
def test_people_rate_per_case_criteria(evaluate, gradebook, tmp_path):
    outputs = write_rows(tmp_path / "o.jsonl", [RATED], [RATED])
    ratings = tmp_path / "ratings.jsonl"
    rows = [
        {"case_id": f"c{n}", "model": "m", "criterion_id": "liked", "rater": "r", "level_id": "some"} for n in (0, 1)
    ]
    ratings.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert evaluate(outputs, "--rubric", "none", "--ratings", ratings).code == 0
    found = query(gradebook, "select level_id, score from verdicts")
    assert found == [{"level_id": "some", "score": 0.5}] * 2


def test_a_rating_of_a_criterion_that_no_row_has_is_refused(gradebook, tmp_path):
    outputs = write_rows(tmp_path / "o.jsonl", [RATED])
    ratings = tmp_path / "ratings.jsonl"
    row = {"case_id": "c0", "model": "m", "criterion_id": "loved", "rater": "r", "level_id": "some"}
    ratings.write_text(json.dumps(row) + "\n", encoding="utf-8")
    finished = gradebook("evaluate", outputs, "--rubric", "none", "--ratings", ratings)
    assert (finished.code, f"{ratings}:1: criterion_id: found 'loved'" in finished.err) == (2, True)


@pytest.mark.nightly
def test_per_case_criteria_are_stored_in_the_lake(evaluate, gradebook, tmp_path):
    evaluate(write_rows(tmp_path / "o.jsonl", [BRIEF], [KIND | {"category": "voice", "weight": 2}]), "--rubric", "none")
    rows = query(gradebook, "select criterion_id, category, weight, method from case_criteria order by criterion_id")
    assert rows == [
        {"criterion_id": "brief", "category": None, "weight": 1, "method": "check"},
        {"criterion_id": "kind", "category": "voice", "weight": 2, "method": "judge"},
    ]


def test_a_row_with_invalid_criteria_is_refused_before_scoring(gradebook, tmp_path):
    outputs = write_rows(
        tmp_path / "o.jsonl", [BRIEF], [BRIEF | {"method": {"type": "check", "check": "lenght_words"}}]
    )
    finished = gradebook("evaluate", outputs, "--rubric", "none", "--dry-run")
    assert finished.code == 2
    assert f"{outputs}:2: criteria[0].method.check: found the check 'lenght_words'" in finished.err


def test_rubric_none_needs_rows_with_criteria(gradebook, tmp_path):
    finished = gradebook("evaluate", write_rows(tmp_path / "o.jsonl", None), "--rubric", "none", "--dry-run")
    assert (finished.code, "found no row with criteria of its own" in finished.err) == (2, True)


def test_the_plan_counts_per_case_criteria(gradebook, tmp_path, judge):
    outputs = write_rows(tmp_path / "o.jsonl", [KIND], [KIND, BRIEF])
    finished = gradebook("evaluate", outputs, "--rubric", "none", "--judge", "gpt-4o-mini", "--dry-run", "--json")
    assert (finished.code, finished.json["request_count"]) == (0, 2)


@pytest.mark.nightly
def test_with_allow_unscored_a_method_that_no_row_may_choose_stays_unscored_with_a_note(evaluate, gradebook, tmp_path):
    own = [{**BRIEF, "id": name, "method": {"type": name}} for name in ("claims", "similarity")]
    finished = evaluate(write_rows(tmp_path / "o.jsonl", own), "--rubric", "none", "--allow-unscored")
    assert "methods that no row may choose: 2 per-case criteria unscored" in finished.json["notes"]
    rows = query(gradebook, "select reason from verdicts order by 1")
    assert [row["reason"] for row in rows] == ["unsupported_method: claims", "unsupported_method: similarity"]

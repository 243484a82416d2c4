"""Criteria that apply by a condition on the row: asked, scored, compared and rated only where it holds."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gradebook import Scorer
from tests.support.samples import JUDGED, query, write_lines

# Of 6 cases 2 are refunds; one of these is large. Each case has an output of each of two models.
ROWS = [
    {
        "case_id": f"c{case}",
        "model": model,
        "prompt": f"{'Hi! ' if case % 2 else ''}Question {case}?",
        "output": f"Answer {case} of {model}.",
        "metadata": {"kind": "refund" if case < 2 else "order", "amount": 100 * case},
    }
    for case in range(6)
    for model in ("small", "large")
]
RUBRIC = (
    "id: replies\nversion: 1.0.0\nname: Replies\ndescription: Replies of two kinds.\ncriteria:\n"
    + JUDGED.format(name="warm")
    + JUDGED.format(name="dated")
    + "  weight: 3\n  applies: metadata.kind = 'refund'\n"
    + JUDGED.format(name="careful").replace("description", "gate: true\n  description", 1)
    + "  applies: metadata.kind = 'refund' and metadata.amount >= 100\n"
    + JUDGED.format(name="brief")
    + "- id: greets\n  description: Does it greet back?\n"
    + "  applies: {check: contains, settings: {any: [Hi]}, field: prompt}\n"
    + "  method: {type: check, check: contains, settings: {any: [Answer]}}\n"
)
ASKED = {"warm": 12, "dated": 4, "careful": 2, "brief": 12}  # of 12 outputs


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    write_lines(tmp_path / "outputs.jsonl", ROWS)
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "judge.yaml").write_text("model: m\npacking: 3\n", encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml")


def expected_score(kind: str, scores: dict[str, float]) -> float:
    weights = {
        "warm": 1,
        "brief": 1,
        **({"dated": 3} if kind == "refund" else {}),
        **({"greets": 1} if "greets" in scores else {}),
    }
    return sum(weight * scores[name] for name, weight in weights.items()) / sum(weights.values())


def test_a_run_asks_and_scores_where_the_condition_holds(evaluate, gradebook, judge, words):
    planned = json.loads(evaluate(*words, "--judge", "m", "--dry-run").out)
    assert {
        row["criterion_id"]: row["request_count"] for row in planned["criteria"] if row["method"] == "judge"
    } == ASKED
    finished = evaluate(*words, "--judge", "m")
    assert finished.code in (0, 1), finished.err
    assert judge.request_count == sum(ASKED.values())
    assert "dated applies to 4 of 12 outputs: metadata.kind = 'refund'" in finished.out
    verdicts: dict[str, dict[str, Any]] = {}
    for row in query(gradebook, "select output_id, criterion_id, score, reason from verdicts"):
        verdicts.setdefault(row["output_id"], {})[row["criterion_id"]] = row
    for row in query(gradebook, "select output_scores.*, metadata from output_scores join outputs using (output_id)"):
        kind = json.loads(row["metadata"])["kind"]
        scores = {
            name: verdict["score"]
            for name, verdict in verdicts[row["output_id"]].items()
            if verdict["score"] is not None
        }
        assert row["score"] == pytest.approx(expected_score(kind, scores))
        assert (row["score_low"], row["score_high"], row["unscored_count"]) == (row["score"], row["score"], 0)
    (dated,) = query(
        gradebook, "select distinct output_count, n, coverage_rate from criterion_scores where criterion_id = 'dated'"
    )
    assert dated == {"output_count": 2, "n": 2, "coverage_rate": 1.0}
    why = gradebook("why", "c5", "dated").out
    assert "does not apply: metadata.kind is 'order'" in why


def test_batches_hold_criteria_of_one_condition(evaluate, judge, words):
    evaluate(*words, "--judge", "judge.yaml")
    assert judge.request_count == 12 + 4 + 2  # warm and brief together; dated and careful alone


def test_a_scorer_gives_the_scores_of_the_run(evaluate, gradebook, judge, words):
    evaluate(*words, "--judge", "m")
    with closing(Scorer("rubric.yaml", "m")) as scorer:
        scored = scorer.score_all(ROWS)
    by_run = {
        row["output_id"]: row for row in query(gradebook, "select output_id, score, is_passed from output_scores")
    }
    assert {score.output_id: (score.score, score.is_passed) for score in scored} == {
        name: (row["score"], row["is_passed"]) for name, row in by_run.items()
    }
    assert scored[-1].unscored["dated"] == "not_applicable: condition not met, metadata.kind is 'order'"


def test_a_value_of_another_type_is_refused_before_anything_is_asked(evaluate, judge, words):
    write_lines(Path("outputs.jsonl"), [*ROWS[:-1], ROWS[-1] | {"metadata": {"kind": "refund", "amount": "much"}}])
    finished = evaluate(*words, "--judge", "m")
    assert finished.code == 2
    assert "careful: applies: case c5: metadata.amount: found 'much', a text, expected a number, as 100" in finished.err
    assert judge.request_count == 0


def test_a_condition_that_no_row_meets_is_said(evaluate, words):
    Path("rubric.yaml").write_text(
        RUBRIC.replace("metadata.kind = 'refund'\n", "metadata.knid = 'refund'\n"), encoding="utf-8"
    )
    finished = evaluate(*words)
    assert "dated applies to none of 12 outputs: metadata.knid = 'refund'; no row has metadata.knid" in finished.out


def test_a_comparison_pairs_outputs_that_a_criterion_applies_to(evaluate, gradebook, words):
    evaluate(*words, "--run-id", "before")
    changed = [row | {"output": f"No reply {index}."} if index % 5 == 0 else row for index, row in enumerate(ROWS)]
    write_lines(Path("outputs.jsonl"), changed)
    evaluate(*words, "--run-id", "after")
    compared = json.loads(gradebook("compare", "before", "after", "--json").out)
    (greets,) = [row for row in compared["criteria"] if row["criterion_id"] == "greets" and row["model_a"] == "small"]
    # Of 6 cases 3 have a greeting in their prompt; the small model's answer to c5 changed.
    assert (greets["n"], greets["unscored_count"], greets["unpaired_count"], greets["worse_count"]) == (3, 0, 0, 1)


def test_a_judge_is_not_needed_where_a_condition_holds_for_no_output(evaluate, gradebook, judge, words):
    Path("rubric.yaml").write_text(RUBRIC.replace("'refund'", "'return'"), encoding="utf-8")
    assert evaluate(*words, "--judge", "m").code == 0
    assert judge.request_count == 12 + 12  # warm and brief
    counts = "select criterion_id, count(*) as n, count(score) as scored from verdicts group by all order by all"
    left_out = [row for row in query(gradebook, counts) if row["criterion_id"] in ("careful", "dated")]
    assert [(row["n"], row["scored"]) for row in left_out] == [(12, 0), (12, 0)]


ONE_SIDED = """
id: sided
version: 1.0.0
missing: skip
criteria:
  - {id: x, description: Right?, method: {type: check, check: contains_reference}}
  - id: y
    description: Is the citation short?
    weight: 2
    applies: {check: contains, settings: {any: [cite]}, field: output}
    method: {type: check, check: length_words, settings: {max: 4}}
  - {id: z, description: Is it short?, method: {type: check, check: length_words, settings: {max: 1}}}
"""


def test_the_bounds_of_a_difference_hold_it_where_a_criterion_applies_to_one_side(evaluate, gradebook, tmp_path):
    Path("sided.yaml").write_text(ONE_SIDED, encoding="utf-8")
    for run_id, is_known in (("a", False), ("b", True)):
        rows = [
            {
                "case_id": f"c{case}",
                "model": "m",
                "prompt": "Which?",
                "output": "cite Lima" if run_id == "a" else "Lima",
            }
            | ({"reference": "Lima"} if is_known or case >= 10 else {})
            for case in range(30)
        ]
        write_lines(tmp_path / f"{run_id}.jsonl", rows)
        evaluate(f"{run_id}.jsonl", "--rubric", "sided.yaml", "--run-id", run_id)
    compared = json.loads(gradebook("compare", "a", "b", "--json").out)
    (overall,) = [row for row in compared["overall"] if row["model_a"] == "m"]
    assert overall["least_diff"] <= overall["mean_diff"] <= overall["most_diff"]
    # Of the ten unknown cases x may be 0 or 1: A has (0 + 2 + 0) / 4 or (1 + 2 + 0) / 4, and B 1.
    assert overall["least_diff"] <= (10 * 0.25 + 20 * 0.25) / 30 <= (10 * 0.5 + 20 * 0.25) / 30 <= overall["most_diff"]

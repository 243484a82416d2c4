"""`gradebook evaluate --feedback llm`: the judge writes one text about each output and model."""

import json

import pytest

from tests.support.samples import write_outputs, write_rubric


@pytest.fixture
def words(tmp_path) -> list[object]:
    """Words for two cases of one model, a judged criterion, and feedback by the judge."""
    outputs = write_outputs(tmp_path / "outputs.jsonl", count=2, models=("small",))
    return [outputs, "--rubric", write_rubric(tmp_path / "rubric.yaml"), "--judge", "gpt-4o-mini", "--feedback", "llm"]


@pytest.mark.nightly
def test_the_judge_writes_about_each_output_and_the_model_once(evaluate, gradebook, judge, words):
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    assert judge.request_count == 2 + 2 + 1  # judgments, texts about outputs, one about the model
    assert [row["feedback"] for row in finished.json["feedback"]] == ["It is kind."]
    rows = json.loads(gradebook("sql", "select feedback, summary from output_feedback", "--format", "json").out)
    assert [(row["feedback"], row["summary"].splitlines()[0][:6]) for row in rows] == [("It is kind.", "Passed")] * 2
    evaluate(*words)
    assert judge.request_count == 5


@pytest.mark.nightly
def test_texts_are_billed_and_counted_with_the_judgments(evaluate, judge, words):
    finished = evaluate(*words)
    (costs,) = [row for row in finished.json["costs"] if row["criterion_id"] == "(feedback)"]
    assert (costs["request_count"], costs["cost_usd"] > 0) == (3, True)
    assert finished.json["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in finished.json["costs"]))


@pytest.mark.nightly
def test_the_budget_covers_texts_too_and_a_larger_one_resumes(evaluate, judge, words):
    finished = evaluate(*words, "--budget-usd", "0.000001")
    assert (finished.code, judge.request_count) == (3, 0)
    assert evaluate(*words, "--budget-usd", "1").code == 0


def test_the_plan_includes_feedback_texts(gradebook, judge, words):
    planned = gradebook("evaluate", *words, "--dry-run", "--json").json
    assert planned["request_count"] == 5
    assert [row["request_count"] for row in planned["criteria"] if row["criterion_id"] == "(feedback)"] == [3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--feedback", "human"], "--feedback: found 'human', expected llm"),
        (["--feedback", ""], "--feedback: found ''"),
    ],
)
def test_another_kind_of_feedback_is_refused(gradebook, words, changed, message):
    finished = gradebook("evaluate", *words[:-2], *changed)
    assert (finished.code, message in finished.err) == (2, True)


def test_feedback_needs_a_judge(gradebook, words):
    finished = gradebook("evaluate", *words[:3], "--feedback", "llm")
    assert (finished.code, "--feedback llm: found no --judge" in finished.err) == (2, True)

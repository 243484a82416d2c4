"""A Scorer beside a run: claims, steps, preferences and similarities get the same scores, by the same paid replies."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.model.errors import EndpointUnavailable, InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.rewards.scorer import RubricScorer as Scorer
from tests.support.claims_judge import write_claims
from tests.support.loopback_judge import LoopbackJudge
from tests.support.preference_judge import write_preference
from tests.support.published_runs import publish
from tests.support.samples import write_lines
from tests.support.steps_judge import write_steps

RUBRIC = """
id: whole
version: 1.0.0
criteria:
  - {id: grounded, description: Is it borne out?, method: {type: claims}}
  - {id: steps, description: Is the step right?, method: {type: judge, unit: step}}
  - {id: better, description: Which helps more?, method: {type: preference, against: AGAINST}}
  - {id: alike, description: Is it worded alike?, method: {type: similarity}}
"""
CRITERIA = ("grounded", "steps", "better", "alike")


def write(body: dict[str, Any]) -> str:
    """Reply of a judge to any of the questions."""
    if "claim" in body["response_format"]["json_schema"]["name"]:
        return write_claims(body)
    return write_steps(body) if "\n\nSTEPS\n" in body["messages"][-1]["content"] else write_preference(body)


@pytest.fixture
def judge(judge: LoopbackJudge) -> LoopbackJudge:
    judge.writer = write
    return judge


def rows() -> list[dict[str, Any]]:
    """Six cases by two models; claims and steps of odd ones are wrong, and the second has more stars."""
    return [
        {
            "case_id": f"c{case}",
            "model": model,
            "output": f"Shop {case} is {'shut' if case % 2 else 'open'}. {'*' * (model == 'b')}",
            "reference": f"Shop {case} is open, said number {case * 7}",
            "context": [f"Shop {case} is open."],
            "steps": [{"kind": "tool", "name": "find", "input": "x", "output": "wrong" if case % 2 else "fine"}],
        }
        for case in range(6)
        for model in ("a", "b")
    ]


def rubric_file(folder: Path, against: str) -> Path:
    path = folder / "rubric.yaml"
    path.write_text(RUBRIC.replace("AGAINST", against), encoding="utf-8")
    return path


def verdicts_of(lake: str, run_id: str) -> dict[tuple[str, str, str], float | None]:
    with connect(find_lake(lake), read_only=True) as connection:
        found = connection.execute(
            "select case_id, model, criterion_id, score from verdicts join outputs using (output_id) where run_id = ?",
            [run_id],
        ).fetchall()
    return {(case, model, criterion): score for case, model, criterion, score in found}


def scores_of(scorer: Scorer) -> dict[tuple[str, str, str], float | None]:
    found = scorer.score_all(rows())
    return {
        (row["case_id"], row["model"], name): score.criteria[name].score
        for row, score in zip(rows(), found, strict=True)
        for name in CRITERIA
    }


def test_a_scorer_gives_the_scores_of_a_run_and_pays_for_none_again(judge: LoopbackJudge, tmp_path: Path):
    lake, rubric = f"sqlite:{tmp_path}/lake/catalog.sqlite", rubric_file(tmp_path, "b")
    run = publish(write_lines(tmp_path / "outputs.jsonl", rows()), rubric, judge="m")
    of_run, asked_count = verdicts_of(lake, run.run_id), judge.request_count
    assert of_run["c0", "a", "better"] == 0.0
    assert {of_run[f"c{case}", "a", "grounded"] for case in (0, 1)} == {0.0, 1.0}
    assert of_run["c0", "a", "steps"] > of_run["c1", "a", "steps"]
    with Scorer(str(rubric), "m", lake=lake) as scorer:
        assert scores_of(scorer) == of_run
    assert judge.request_count == asked_count
    with Scorer(str(rubric), "m") as scorer:  # without the ledger each question is asked once more
        assert scores_of(scorer) == of_run
        assert judge.request_count == 2 * asked_count
        scores_of(scorer)
        assert judge.request_count == 2 * asked_count


def test_a_baseline_is_what_single_outputs_compare_with(judge: LoopbackJudge, tmp_path: Path):
    lake, rubric = f"sqlite:{tmp_path}/lake/catalog.sqlite", rubric_file(tmp_path, "baseline")
    lines = [row | {"model": "a"} for row in rows() if row["model"] == "a"]
    first = publish(
        write_lines(tmp_path / "outputs.jsonl", lines), rubric_file(tmp_path, "a"), judge="m", run_id="first"
    )
    better = lines[2] | {"output": f"{lines[2]['output']} ***"}
    with Scorer(str(rubric_file(tmp_path, "baseline")), "m", lake=lake, baseline=first.run_id) as scorer:
        found = scorer.score(better)
    assert (found.criteria["better"].score, found.criteria["grounded"].score) == (1.0, 1.0)
    assert "5 other cases" in found.criteria["alike"].rationale
    with Scorer(str(rubric), "m", lake=lake) as scorer:
        assert scorer.score(better).unscored["better"] == "no_baseline: nothing to compare with"
    with pytest.raises(InputError, match="no_such"):
        Scorer(str(rubric), "m", lake=lake, baseline="no_such")
    with pytest.raises(InputError, match="without a lake"):
        Scorer(str(rubric), "m", baseline="first")


def test_what_the_judge_does_not_answer_in_time_is_unscored_and_the_rest_has_its_score(
    judge: LoopbackJudge, tmp_path: Path
):
    rubric = read_rubric(str(rubric_file(tmp_path, "b")))
    judge.is_held = lambda _body: True
    with Scorer(rubric, "m", deadline_s=0.5) as scorer:
        found = scorer.score_all(rows())[0]
        assert {found.unscored[name].partition(":")[0] for name in ("grounded", "steps", "better")} == {"deadline"}
        judge.is_held = lambda _body: False
    with Scorer(rubric) as scorer:
        found = scorer.score_all(rows())[0]
    assert set(found.unscored) == {"grounded", "steps", "better"}
    assert found.unscored["steps"] == "no_judge: the scorer has no judge"
    assert found.criteria["alike"].score is not None


def test_a_judge_that_fails_leaves_none_or_raises(judge: LoopbackJudge, tmp_path: Path):
    rubric = read_rubric(str(rubric_file(tmp_path, "b")))
    judge.faults = ["401"] * 100
    with Scorer(rubric, "m") as scorer:
        found = scorer.score_all(rows())[0]
    assert found.unscored["grounded"].startswith("endpoint_error: ")
    with Scorer(rubric, "m", on_fault="raise") as scorer, pytest.raises(EndpointUnavailable):
        scorer.score_all(rows())
